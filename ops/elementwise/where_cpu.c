#include "ops/elementwise/where_cpu.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { BLOCK = 1 << 14, SHORT_ROW = 64 };

struct choice {
    const struct zt_call *call;
    struct zt_walk walk; /* condition, yes, no */
    int64_t elements;
};

bool zt_where_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_shape *y = &zt_out(g, node, 0)->shape;
    return zt_dtype_bytes(zt_in(g, node, 1)->dtype) == 4 && y->rank > 0 && zt_shape_count(y) > 0;
}

/* Elements whose places in memory follow each other, or are one. */
struct span {
    const uint8_t *condition;
    const uint32_t *yes, *no;
    uint32_t *to;
    int64_t n;
};

/* Inlined with known steps, 0 or 1. */
static inline __attribute__((always_inline)) void choose(struct span s, int yes_step, int no_step) {
    for (int64_t k = 0; k < s.n; k++) {
        const uint32_t mask = s.condition[k] ? UINT32_MAX : 0;
        s.to[k] = (s.yes[k * yes_step] & mask) | (s.no[k * no_step] & ~mask);
    }
}

static void take(const struct span *s, const uint32_t *from, int64_t step) {
    if (step)
        memcpy(s->to, from, (size_t)s->n * sizeof *s->to);
    else
        for (int64_t k = 0; k < s->n; k++)
            s->to[k] = *from;
}

/* The span of n elements of the inputs from `offset` on; steps are 0 or 1. */
static void choose_span(const struct choice *c, const int64_t *offset, const bool *steps, int64_t n, uint32_t *to) {
    const struct span s = { (const uint8_t *)c->call->in[0].data + offset[0],
                            (const uint32_t *)c->call->in[1].data + offset[1],
                            (const uint32_t *)c->call->in[2].data + offset[2], to, n };
    if (!steps[0])
        take(&s, *s.condition ? s.yes : s.no, *s.condition ? steps[1] : steps[2]);
    else if (steps[1] && steps[2])
        choose(s, 1, 1);
    else if (steps[1])
        choose(s, 1, 0);
    else if (steps[2])
        choose(s, 0, 1);
    else
        choose(s, 0, 0);
}

static void choice_block(void *arg, int64_t block) {
    const struct choice *c = arg;
    struct zt_walk w = c->walk;
    uint32_t *to = (uint32_t *)c->call->out[0].data + block * BLOCK;
    zt_walk_part(&w, block * BLOCK, c->elements - block * BLOCK < BLOCK ? c->elements - block * BLOCK : BLOCK);
    for (; zt_walk_next(&w); to += w.count) {
        const bool steps[3] = { w.stride[0] != 0, w.stride[1] != 0, w.stride[2] != 0 };
        choose_span(c, w.offset, steps, w.count, to);
    }
}

/* BLOCK elements of rows that are so short that walking from one to the next would take longer than a row. */
static void choice_rows(void *arg, int64_t block) {
    const struct choice *c = arg;
    struct zt_walk w = c->walk; /* over rows */
    const int last = --w.shape.rank;
    const int64_t columns = w.shape.dim[last], share = BLOCK / columns, rows = c->elements / columns;
    const bool steps[3] = { w.step[0][last] != 0, w.step[1][last] != 0, w.step[2][last] != 0 };
    uint32_t *to = (uint32_t *)c->call->out[0].data + block * share * columns;
    zt_walk_part(&w, block * share, rows - block * share < share ? rows - block * share : share);
    while (zt_walk_next(&w))
        for (int64_t row = 0; row < w.count; row++, to += columns) {
            const int64_t at[3] = { w.offset[0] + row * w.stride[0], w.offset[1] + row * w.stride[1],
                                    w.offset[2] + row * w.stride[2] };
            choose_span(c, at, steps, columns, to);
        }
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
    const int64_t columns = c.walk.shape.dim[c.walk.shape.rank - 1];
    if (c.walk.shape.rank > 1 && columns <= SHORT_ROW)
        zt_parallel_for(call->threads, zt_ceil_div(c.elements / columns, BLOCK / columns), choice_rows, &c);
    else
        zt_parallel_for(call->threads, zt_ceil_div(c.elements, BLOCK), choice_block, &c);
    return true;
}
