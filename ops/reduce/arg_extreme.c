/* ArgMax, ArgMin: the index of the first (select_last_index: last) extreme element along an axis. A NaN wins. */
#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/reduce/launch_axis_slices.h"
#include "ops/reduce/kernels.h"
#include "ops/kernel/shape.h"

#include <math.h>

static bool arg_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    struct zt_shape shape = { 0 };
    int axis;
    if (!zt_axis(g, node, zt_attr_int(n, "axis", 0), x->rank, &axis, err))
        return false;
    if (x->dim[axis] == 0)
        return zt_node_fail(g, node, err, "axis %d has no elements", axis);
    for (int k = 0; k < x->rank; k++)
        if (k != axis)
            shape.dim[shape.rank++] = x->dim[k];
        else if (zt_attr_int(n, "keepdims", 1))
            shape.dim[shape.rank++] = 1;
    zt_set_out(g, node, 0, ZT_INT64, &shape);
    return true;
}

struct search {
    const struct zt_view *x;
    int64_t *y, size, inner;
    bool most, last;
};

/* Sets best[] and y[] to the extremes of `columns` adjacent slices, row by row; a NaN is the extreme, and int64 stays
 * exact. These are macros, as TYPE is a type. */
#define SEARCH_COLUMNS(TYPE, LOAD, BEATS)                                                                              \
    do {                                                                                                               \
        TYPE best[ZT_ELEMENT_BLOCK], v[ZT_ELEMENT_BLOCK];                                                              \
        for (int64_t k = 0; k < s->size; k++) {                                                                        \
            LOAD(s->x->dtype, s->x->data, first + k * s->inner, 1, columns, v);                                        \
            for (int64_t i = 0; i < columns; i++) {                                                                    \
                const TYPE a = v[i], b = best[i];                                                                      \
                if (k == 0 || (s->last ? !(BEATS(b, a)) : (BEATS(a, b)))) {                                            \
                    best[i] = a;                                                                                       \
                    y[i] = k;                                                                                          \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)
#define SEARCH_SLICE(TYPE, LOAD, BEATS)                                                                                \
    do {                                                                                                               \
        TYPE best = 0, v[ZT_ELEMENT_BLOCK];                                                                            \
        for (int64_t k = 0; k < s->size; k += ZT_ELEMENT_BLOCK) {                                                      \
            const int64_t n = s->size - k < ZT_ELEMENT_BLOCK ? s->size - k : ZT_ELEMENT_BLOCK;                         \
            LOAD(s->x->dtype, s->x->data, first + k, 1, n, v);                                                         \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (k + i == 0 || (s->last ? !(BEATS(best, v[i])) : (BEATS(v[i], best)))) {                            \
                    best = v[i];                                                                                       \
                    *y = k + i;                                                                                        \
                }                                                                                                      \
        }                                                                                                              \
    } while (0)

static inline bool floats_beat(bool most, double a, double b) {
    if (isnan(a) || isnan(b))
        return !isnan(b);
    return most ? a > b : a < b;
}
#define FLOATS_BEAT(a, b) floats_beat(s->most, a, b)
#define INTS_BEAT(a, b)   (s->most ? (a) > (b) : (a) < (b))
#define BITS_BEAT(a, b)   (s->most ? (uint64_t)(a) > (uint64_t)(b) : (uint64_t)(a) < (uint64_t)(b))

static void search_columns(const struct search *s, int64_t first, int64_t columns, int64_t *y) {
    if (s->x->dtype == ZT_UINT64)
        SEARCH_COLUMNS(int64_t, zt_load_block_int, BITS_BEAT);
    else if (zt_dtype_in(s->x->dtype, ZT_ANY_INT))
        SEARCH_COLUMNS(int64_t, zt_load_block_int, INTS_BEAT);
    else
        SEARCH_COLUMNS(double, zt_load_block, FLOATS_BEAT);
}

static void search_slice(const struct search *s, int64_t first, int64_t *y) {
    if (s->x->dtype == ZT_UINT64)
        SEARCH_SLICE(int64_t, zt_load_block_int, BITS_BEAT);
    else if (zt_dtype_in(s->x->dtype, ZT_ANY_INT))
        SEARCH_SLICE(int64_t, zt_load_block_int, INTS_BEAT);
    else
        SEARCH_SLICE(double, zt_load_block, FLOATS_BEAT);
}

/* The slices of one index of the axes before the axis. */
static void search_block(void *arg, int64_t block) {
    const struct search *s = arg;
    const int64_t first = block * s->size * s->inner;
    int64_t *y = s->y + block * s->inner;
    if (s->inner == 1)
        search_slice(s, first, y);
    for (int64_t at = 0; at < s->inner && s->inner > 1; at += ZT_ELEMENT_BLOCK)
        search_columns(s, first + at, s->inner - at < ZT_ELEMENT_BLOCK ? s->inner - at : ZT_ELEMENT_BLOCK, y + at);
}

extern const struct zt_op zt_op_arg_min;

static bool arg_run(const struct zt_call *call, bool most) {
    const struct zt_view *x = &call->in[0];
    int64_t axis = zt_attr_int(call->node, "axis", 0);
    axis += axis < 0 ? x->shape.rank : 0;
    struct search s = { .x = x,
                        .y = call->out[0].data,
                        .size = x->shape.dim[axis],
                        .inner = zt_dims(&x->shape, (int)axis + 1, x->shape.rank),
                        .most = most,
                        .last = zt_attr_int(call->node, "select_last_index", 0) != 0 };
    zt_parallel_for(zt_threads_worth(call->threads, (double)zt_shape_count(&x->shape)),
                    zt_dims(&x->shape, 0, (int)axis), search_block, &s);
    return true;
}

static bool arg_max_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return arg_run(call, true);
}

static bool arg_min_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return arg_run(call, false);
}

/* A struct zt_launch_extreme for other back ends. */
static bool arg_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int axis;
    if (!zt_axis(g, node, zt_attr_int(n, "axis", 0), x->rank, &axis, err))
        return false;
    *(struct zt_launch_extreme *)to = (struct zt_launch_extreme){ .outer = zt_dims(x, 0, axis),
                                                                  .length = x->dim[axis],
                                                                  .inner = zt_dims(x, axis + 1, x->rank),
                                                                  .least = n->op == &zt_op_arg_min,
                                                                  .last = zt_attr_int(n, "select_last_index", 0) != 0 };
    return true;
}

static const struct zt_attr_spec arg_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "keepdims", ZT_ATTR_INT }, { "select_last_index", ZT_ATTR_INT }, { 0 }
};

#define ARG_ROW(id, NAME)                                                                                              \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .in_types = { ZT_ANY_NUMBER },                                                                                 \
        .attrs = arg_attrs,                                                                                            \
        .infer = arg_infer,                                                                                            \
        .kernel = { [ZT_REF] = { .run = id##_run }, [ZT_CUDA] = ZT_CUDA_AS(extreme, zt_cuda_numbers, arg_describe) },  \
    };

ARG_ROW(arg_max, "ArgMax")
ARG_ROW(arg_min, "ArgMin")
