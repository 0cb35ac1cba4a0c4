#include "ops/elementwise/where_cpu.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <string.h>

enum { BLOCK = 1 << 14 };

struct choice {
    const struct zt_call *call;
    struct zt_walk walk; /* condition, yes, no */
    int64_t elements;
};

bool zt_where_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_shape *y = &zt_out(g, node, 0)->shape;
    return zt_dtype_bytes(zt_in(g, node, 1)->dtype) == 4 && y->rank > 0 && zt_shape_count(y) > 0;
}

/* Inlined with known steps, 0 or 1. */
static inline __attribute__((always_inline)) void choose(const uint8_t *condition, const uint32_t *yes, int yes_step,
                                                         const uint32_t *no, int no_step, int64_t n, uint32_t *to) {
    for (int64_t k = 0; k < n; k++) {
        const uint32_t mask = condition[k] ? UINT32_MAX : 0;
        to[k] = (yes[k * yes_step] & mask) | (no[k * no_step] & ~mask);
    }
}

static void take(const uint32_t *from, int64_t step, int64_t n, uint32_t *to) {
    if (step)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t k = 0; k < n; k++)
            to[k] = *from;
}

static void choice_span(const struct choice *c, const struct zt_walk *w, uint32_t *to) {
    const uint8_t *condition = (const uint8_t *)c->call->in[0].data + w->offset[0];
    const uint32_t *yes = (const uint32_t *)c->call->in[1].data + w->offset[1];
    const uint32_t *no = (const uint32_t *)c->call->in[2].data + w->offset[2];
    const int64_t n = w->count;
    if (!w->stride[0])
        take(*condition ? yes : no, *condition ? w->stride[1] : w->stride[2], n, to);
    else if (w->stride[1] && w->stride[2])
        choose(condition, yes, 1, no, 1, n, to);
    else if (w->stride[1])
        choose(condition, yes, 1, no, 0, n, to);
    else if (w->stride[2])
        choose(condition, yes, 0, no, 1, n, to);
    else
        choose(condition, yes, 0, no, 0, n, to);
}

static void choice_block(void *arg, int64_t block) {
    const struct choice *c = arg;
    struct zt_walk w = c->walk;
    uint32_t *to = (uint32_t *)c->call->out[0].data + block * BLOCK;
    zt_walk_part(&w, block * BLOCK, c->elements - block * BLOCK < BLOCK ? c->elements - block * BLOCK : BLOCK);
    for (; zt_walk_next(&w); to += w.count)
        choice_span(c, &w, to);
}

bool zt_where_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_shape *y = &call->out[0].shape;
    struct choice c = { .call = call, .elements = zt_shape_count(y) };
    zt_walk_start(&c.walk, y, 3);
    for (int i = 0; i < 3; i++)
        zt_walk_strides(&c.walk, i, &call->in[i].shape);
    zt_walk_merge(&c.walk);
    c.walk.limit = BLOCK;
    zt_parallel_for(call->threads, (c.elements + BLOCK - 1) / BLOCK, choice_block, &c);
    return true;
}
