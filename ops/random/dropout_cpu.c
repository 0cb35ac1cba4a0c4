#include "ops/random/dropout_cpu.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/random/random.h"
#include "ops/random/simd_random.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1 << 13 }; /* elements of a unit of work, a multiple of 4 */

bool zt_dropout_cpu_supports(const struct zt_graph *g, int node) {
    return zt_in(g, node, 0)->dtype == ZT_FLOAT;
}

struct dropping {
    const struct zt_call *call;
    struct zt_draws draws;
    int64_t width, blocks; /* elements of a row, and blocks of it */
    double ratio;
};

/* u = word / 2^32 is not below the ratio where the word is not below 2^32 ratio. Of a ratio of 1, or NaN, none is kept.
 */
static void drop_block(void *arg, int64_t unit) {
    const struct dropping *p = arg;
    const int64_t row = unit / p->blocks, first = unit % p->blocks * BLOCK, at = row * p->width + first;
    struct zt_simd_drop d = { .key = p->draws.key,
                              .stream = p->draws.first_sample + (uint64_t)row,
                              .counter = (uint64_t)first / 4,
                              .scale = (float)zt_dropout_scale(p->ratio),
                              .count = zt_min_int(BLOCK, p->width - first),
                              .x = (const float *)p->call->in[0].data + at,
                              .y = (float *)p->call->out[0].data + at };
    if (p->call->out_count > 1 && p->call->out[1].data)
        d.mask = (uint8_t *)p->call->out[1].data + at;
    const double least = ceil(p->ratio * 0x1p32);
    if (least < 0x1p32) {
        d.least = least > 0 ? (uint32_t)least : 0;
        zt_simd_random()->drop(&d);
        return;
    }
    memset(d.y, 0, (size_t)d.count * sizeof *d.y);
    if (d.mask)
        memset(d.mask, 0, (size_t)d.count);
}

bool zt_dropout_train_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_shape *x = &call->in[0].shape;
    const int64_t rows = x->rank > 0 ? x->dim[0] : 1;
    struct dropping d = { .call = call, .ratio = zt_dropout_ratio_of(call, 1) };
    d.draws = zt_draws_of(call, zt_attr_text(call->node, "key", call->node->name));
    d.width = rows ? zt_shape_count(x) / rows : 0;
    d.blocks = zt_ceil_div(d.width, BLOCK);
    zt_parallel_for(zt_threads_worth(call->threads, (double)(rows * d.width)), rows * d.blocks, drop_block, &d);
    return true;
}

struct backward {
    const struct zt_call *call;
    float scale;
};

static void back_block(void *arg, int64_t block) {
    const struct backward *b = arg;
    const struct zt_call *call = b->call;
    const int64_t at = block * BLOCK, count = zt_min_int(BLOCK, zt_shape_count(&call->in[0].shape) - at);
    zt_simd_random()->drop_back(count, (const float *)call->in[0].data + at, (const uint8_t *)call->in[1].data + at,
                                b->scale, (float *)call->out[0].data + at);
}

bool zt_dropout_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct backward b = { call, (float)zt_dropout_scale(zt_dropout_ratio_of(call, 2)) };
    const int64_t total = zt_shape_count(&call->in[0].shape);
    zt_parallel_for(zt_threads_worth(call->threads, (double)total), zt_ceil_div(total, BLOCK), back_block, &b);
    return true;
}
