#include "ops/quantize/integer_cpu.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/window.h"

enum { PIECE = 1 << 14 }; /* elements that a thread takes where all have one zero point */

bool zt_integer_cpu_takes(const struct zt_graph *g, int node, struct zt_quantized_in in) {
    const enum zt_dtype x = zt_in(g, node, in.at)->dtype;
    return zt_simd_gemm_best() && (x == ZT_INT8 || x == ZT_UINT8) &&
           (in.scale < 0 || zt_in(g, node, in.scale)->dtype == ZT_FLOAT);
}

int64_t zt_integer_zeros(const struct zt_graph *g, int node, struct zt_quantized_in in) {
    return zt_in(g, node, in.zero) ? zt_shape_count(&zt_in(g, node, in.zero)->shape) : 1;
}

/* Runs of `length` elements with one zero point (by 0), or with adjacent ones (by 1). */
struct centering {
    const struct zt_view *x;
    int64_t step[ZT_MAX_RANK], length, count;
    int outer, by; /* outer: the axes that number the runs, 0 where all elements have one zero point */
    const float *zeros;
    float *to;
};

static void center_run(void *arg, int64_t run) {
    const struct centering *c = arg;
    const int64_t at = run * c->length, left = c->count - at, count = left < c->length ? left : c->length;
    const int8_t *q = zt_element(c->x->data, 1, at);
    const uint8_t *u = zt_element(c->x->data, 1, at);
    const float *zero = c->zeros;
    float *to = c->to + at;
    int64_t index[ZT_MAX_RANK];
    zt_window_split(run, c->x->shape.dim, c->outer, index);
    for (int k = 0; k < c->outer; k++)
        zero += index[k] * c->step[k];
    if (c->x->dtype == ZT_INT8)
        for (int64_t i = 0; i < count; i++)
            to[i] = (float)q[i] - (c->by ? zero[i] : *zero);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = (float)u[i] - (c->by ? zero[i] : *zero);
}

void zt_integer_center(const struct zt_call *call, struct zt_quantized_in in, int axis, float *zeros, float *to) {
    const struct zt_view *x = &call->in[in.at];
    const struct zt_view *zero = in.zero < call->in_count && call->in[in.zero].data ? &call->in[in.zero] : NULL;
    struct centering c = {
        .x = x, .length = 1, .count = zt_shape_count(&x->shape), .outer = x->shape.rank, .zeros = zeros, .to = to
    };
    *zeros = 0;
    for (int64_t i = 0; zero && i < zt_shape_count(&zero->shape); i++)
        zeros[i] = (float)zt_load_int(zero->dtype, zero->data, i);
    zt_quantized_steps(zero, &x->shape, axis, c.step);
    while (c.outer > 0 && !c.step[c.outer - 1])
        c.length *= x->shape.dim[--c.outer];
    if (c.length == 1 && c.outer > 0) {
        c.by = 1;
        c.length = x->shape.dim[--c.outer];
    } else if (c.outer == 0) {
        c.length = PIECE;
    }
    zt_parallel_for(zt_threads_worth(call->threads, (double)c.count), (c.count + c.length - 1) / c.length, center_run,
                    &c);
}

void zt_integer_add(const float *from, int64_t count, bool first, int32_t *sum) {
    for (int64_t i = 0; i < count && first; i++)
        sum[i] = (int32_t)from[i];
    for (int64_t i = 0; i < count && !first; i++)
        sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)(int32_t)from[i]);
}
