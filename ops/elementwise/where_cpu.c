#include "ops/elementwise/where_cpu.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    BLOCK = 1 << 14,
    SHORT_ROW = 64,   /* elements of a last axis whose loop takes less than the way to the next one */
    LONG = 256,       /* elements of a last axis that need no other order */
    PERIOD = 1 << 12, /* elements of a condition that is repeated */
};

struct choice {
    const struct zt_call *call;
    struct zt_walk walk; /* condition, yes, no */
    int64_t elements;
    int64_t period, repeated; /* 0, or elements of the condition, which outer axes share, and of whole ones in mask */
    uint8_t mask[PERIOD];
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

static void choose_span(struct span s, bool yes_steps, bool no_steps) {
    if (yes_steps && no_steps)
        choose(s, 1, 1);
    else if (yes_steps)
        choose(s, 1, 0);
    else if (no_steps)
        choose(s, 0, 1);
    else
        choose(s, 0, 0);
}

/* The span of n elements of the inputs from `offset` on; steps are 0 or 1. */
static void choice_span(const struct choice *c, const int64_t *offset, const bool *steps, int64_t n, uint32_t *to) {
    const struct span s = { (const uint8_t *)c->call->in[0].data + offset[0],
                            (const uint32_t *)c->call->in[1].data + offset[1],
                            (const uint32_t *)c->call->in[2].data + offset[2], to, n };
    if (!steps[0])
        take(&s, *s.condition ? s.yes : s.no, *s.condition ? steps[1] : steps[2]);
    else
        choose_span(s, steps[1], steps[2]);
}

static void choice_block(void *arg, int64_t block) {
    const struct choice *c = arg;
    struct zt_walk w = c->walk;
    uint32_t *to = (uint32_t *)c->call->out[0].data + block * BLOCK;
    zt_walk_part(&w, block * BLOCK, c->elements - block * BLOCK < BLOCK ? c->elements - block * BLOCK : BLOCK);
    for (; zt_walk_next(&w); to += w.count) {
        const bool steps[3] = { w.stride[0] != 0, w.stride[1] != 0, w.stride[2] != 0 };
        choice_span(c, w.offset, steps, w.count, to);
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
            choice_span(c, at, steps, columns, to);
        }
}

/* ---- a condition that outer axes share ---- */

/* Whether the tensor is one element, or its elements follow each other over all axes. */
static bool is_one_or_whole(const struct zt_walk *w, int tensor) {
    const int64_t first = w->step[tensor][w->shape.rank - 1];
    int64_t step = first;
    for (int a = w->shape.rank - 1; a >= 0; step *= w->shape.dim[a--])
        if (w->step[tensor][a] != step)
            return false;
    return first == 0 || first == 1;
}

/* Elements behind which the condition begins again; 0: the walk's order is as good. */
static int64_t period_of(const struct zt_walk *w) {
    int axis = 0;
    while (axis < w->shape.rank && w->step[0][axis] == 0)
        axis++;
    const int64_t period = zt_dims(&w->shape, axis, w->shape.rank);
    const bool is_short = period > 1 && period <= PERIOD && w->shape.dim[w->shape.rank - 1] < LONG;
    return is_short && is_one_or_whole(w, 1) && is_one_or_whole(w, 2) ? period : 0;
}

/* Fills the mask with whole periods. */
static void repeat_condition(struct choice *c) {
    struct zt_walk w = c->walk;
    const uint8_t *condition = c->call->in[0].data;
    uint8_t *to = c->mask;
    zt_walk_part(&w, 0, c->period);
    for (; zt_walk_next(&w); to += w.count)
        for (int64_t k = 0; k < w.count; k++)
            to[k] = condition[w.offset[0] + k * w.stride[0]];
    for (c->repeated = c->period; c->repeated + c->period <= PERIOD; c->repeated += c->period)
        memcpy(c->mask + c->repeated, c->mask, (size_t)c->period);
}

static void repeated_block(void *arg, int64_t block) {
    const struct choice *c = arg;
    const int64_t yes = c->walk.step[1][c->walk.shape.rank - 1], no = c->walk.step[2][c->walk.shape.rank - 1];
    const int64_t first = block * BLOCK, end = first + BLOCK < c->elements ? first + BLOCK : c->elements;
    for (int64_t e = first, n; e < end; e += n) {
        const int64_t phase = e % c->repeated;
        n = c->repeated - phase < end - e ? c->repeated - phase : end - e;
        const struct span s = { c->mask + phase, (const uint32_t *)c->call->in[1].data + e * yes,
                                (const uint32_t *)c->call->in[2].data + e * no, (uint32_t *)c->call->out[0].data + e,
                                n };
        choose_span(s, yes, no);
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
    c.period = period_of(&c.walk);
    if (c.period) {
        repeat_condition(&c);
        zt_parallel_for(call->threads, zt_ceil_div(c.elements, BLOCK), repeated_block, &c);
    } else if (c.walk.shape.rank > 1 && columns <= SHORT_ROW)
        zt_parallel_for(call->threads, zt_ceil_div(c.elements / columns, BLOCK / columns), choice_rows, &c);
    else
        zt_parallel_for(call->threads, zt_ceil_div(c.elements, BLOCK), choice_block, &c);
    return true;
}
