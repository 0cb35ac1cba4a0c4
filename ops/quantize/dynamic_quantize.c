/* DynamicQuantizeLinear: uint8 with scale and zero point from the range of x, which includes 0.
 *
 *     scale = (max(x, 0) - min(x, 0)) / 255        1 / 255 where x is 0 everywhere
 *     zero  = round(clip(-min / scale))            y = clip(round(x / scale) + zero)
 *
 * In float; NaN counts neither for the range nor as more than the lowest y. No gradient. */
#include "ops/quantize/kernels.h"
#include "ops/quantize/simd_quantize.h"

#include "device/threads.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <math.h>

static bool dynamic_infer(struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    const struct zt_shape scalar = { 0 };
    zt_set_out(g, node, 0, ZT_UINT8, &zt_in(g, node, 0)->shape);
    zt_set_out(g, node, 1, ZT_FLOAT, &scalar);
    zt_set_out(g, node, 2, ZT_UINT8, &scalar);
    return true;
}

static float clipped(float x) {
    return !(x > 0) ? 0 : x < 255 ? x : 255;
}

struct range {
    float low, high;
};

static struct range joined(struct range a, struct range b) {
    return (struct range){ b.low < a.low ? b.low : a.low, b.high > a.high ? b.high : a.high };
}

static void store_numbers(const struct zt_call *call, struct range r, float *scale, float *zero) {
    *scale = (r.high == r.low ? 1 : r.high - r.low) / 255;
    *zero = rintf(clipped(-r.low / *scale));
    if (call->out_count > 1 && call->out[1].data)
        *(float *)call->out[1].data = *scale;
    if (call->out_count > 2 && call->out[2].data)
        *(uint8_t *)call->out[2].data = (uint8_t)*zero;
}

static bool dynamic_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const float *x = call->in[0].data;
    const int64_t count = zt_shape_count(&call->in[0].shape);
    struct range r = { 0, 0 };
    float scale, zero;
    for (int64_t i = 0; i < count; i++)
        r = joined(r, (struct range){ x[i], x[i] });
    store_numbers(call, r, &scale, &zero);
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)call->out[0].data)[i] = (uint8_t)clipped(rintf(x[i] / scale) + zero);
    return true;
}

/* ---- CPU kernel: ranges of blocks, then the vector loop of QuantizeLinear ---- */

enum { BLOCK = 1 << 14, LANES = 16 };

struct blocks {
    const struct zt_call *call;
    struct range *range;
    float scale, zero;
};

static int64_t block_count(const struct zt_shape *x) {
    return (zt_shape_count(x) + BLOCK - 1) / BLOCK;
}

/* Elements of a block, which is whole but for the last one. */
static int64_t block_length(const struct zt_call *call, int64_t block) {
    const int64_t left = zt_shape_count(&call->in[0].shape) - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

static void find_range(void *arg, int64_t block) {
    const struct blocks *b = arg;
    const float *x = (const float *)b->call->in[0].data + block * BLOCK;
    const int64_t count = block_length(b->call, block), whole = count / LANES * LANES;
    float low[LANES] = { 0 }, high[LANES] = { 0 };
    for (int64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++) {
            low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
            high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
        }
    struct range r = { 0, 0 };
    for (int k = 0; k < LANES; k++)
        r = joined(r, (struct range){ low[k], high[k] });
    for (int64_t i = whole; i < count; i++)
        r = joined(r, (struct range){ x[i], x[i] });
    b->range[block] = r;
}

static void quantize_block(void *arg, int64_t block) {
    const struct blocks *b = arg;
    zt_quantize_kernels()->quantize(
        &(struct zt_quantize_span){ .count = block_length(b->call, block),
                                    .from = (const float *)b->call->in[0].data + block * BLOCK,
                                    .scale = &b->scale,
                                    .zero = &b->zero,
                                    .type = ZT_UINT8,
                                    .low = 0,
                                    .high = 255,
                                    .to = (uint8_t *)b->call->out[0].data + block * BLOCK });
}

static bool takes_cpu(const struct zt_graph *g, int node) {
    (void)g, (void)node;
    return zt_quantize_kernels() != NULL;
}

static bool prepare_cpu(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    zt_layout_plain(p);
    p->workspace_bytes = sizeof(struct range) * (size_t)block_count(&zt_in(p->graph, p->node, 0)->shape);
    return true;
}

static bool run_cpu(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct blocks b = { .call = call, .range = call->workspace };
    struct range all = { 0, 0 };
    const int64_t blocks = block_count(&call->in[0].shape);
    const int threads = zt_threads_worth(call->threads, (double)blocks * BLOCK);
    zt_parallel_for(threads, blocks, find_range, &b);
    for (int64_t i = 0; i < blocks; i++)
        all = joined(all, b.range[i]);
    store_numbers(call, all, &b.scale, &b.zero);
    zt_parallel_for(threads, blocks, quantize_block, &b);
    return true;
}

const struct zt_op zt_op_dynamic_quantize = {
    .name = "DynamicQuantizeLinear",
    .domain = "",
    .since = 11,
    .min_in = 1,
    .max_in = 1,
    .min_out = 3,
    .max_out = 3,
    .in_types = { ZT_BIT(ZT_FLOAT) },
    .infer = dynamic_infer,
    .kernel = { [ZT_REF] = { .run = dynamic_ref },
                [ZT_CPU] = { .supports = takes_cpu, .prepare = prepare_cpu, .run = run_cpu } },
};
