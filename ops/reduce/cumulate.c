/* CumSum and CumProd along an axis given by an input; exclusive: without the element itself, reverse: from the end. */
#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/reduce/launch_axis_slices.h"
#include "ops/reduce/kernels.h"
#include "ops/kernel/shape.h"

#include <string.h>

static bool cumulate_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *axis = zt_in(g, node, 1);
    if (zt_shape_count(&axis->shape) != 1)
        return zt_node_fail(g, node, err, "axis \"%s\" is not a scalar", axis->name);
    return zt_infer_first(g, node, err);
}

/* The slices along the axis. */
struct slices {
    const struct zt_view *x, *y;
    int64_t size, inner;
    bool product, exclusive, reverse;
};

/* Accumulates `columns` adjacent slices from element `first` on. These are macros, as TYPE is a type. */
#define ACCUMULATE_COLUMNS(TYPE, LOAD, STORE)                                                                          \
    do {                                                                                                               \
        TYPE acc[ZT_ELEMENT_BLOCK], v[ZT_ELEMENT_BLOCK], next[ZT_ELEMENT_BLOCK];                                       \
        for (int64_t i = 0; i < columns; i++)                                                                          \
            acc[i] = s->product;                                                                                       \
        for (int64_t k = 0; k < s->size; k++) {                                                                        \
            const int64_t at = first + (s->reverse ? s->size - 1 - k : k) * s->inner;                                  \
            LOAD(s->x->dtype, s->x->data, at, 1, columns, v);                                                          \
            for (int64_t i = 0; i < columns; i++)                                                                      \
                next[i] = s->product ? acc[i] * v[i] : acc[i] + v[i];                                                  \
            STORE(s->y->dtype, s->y->data, at, 1, columns, s->exclusive ? acc : next);                                 \
            memcpy(acc, next, sizeof *acc *(size_t)columns);                                                           \
        }                                                                                                              \
    } while (0)

static void load_bits(enum zt_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t count,
                      uint64_t *to) {
    zt_load_block_int(dtype, data, offset, stride, count, (int64_t *)to);
}

static void store_bits(enum zt_dtype dtype, void *data, int64_t offset, int64_t stride, int64_t count,
                       const uint64_t *from) {
    zt_store_block_int(dtype, data, offset, stride, count, (const int64_t *)from);
}

static void run_columns(const struct slices *s, int64_t first, int64_t columns) {
    if (zt_dtype_in(s->x->dtype, ZT_ANY_INT))
        ACCUMULATE_COLUMNS(uint64_t, load_bits, store_bits);
    else
        ACCUMULATE_COLUMNS(double, zt_load_block, zt_store_block);
}

/* Accumulates one slice of contiguous elements. */
#define ACCUMULATE_SLICE(TYPE, LOAD, STORE)                                                                            \
    do {                                                                                                               \
        TYPE acc = s->product, v[ZT_ELEMENT_BLOCK];                                                                    \
        for (int64_t k = 0; k < s->size; k += ZT_ELEMENT_BLOCK) {                                                      \
            const int64_t n = s->size - k < ZT_ELEMENT_BLOCK ? s->size - k : ZT_ELEMENT_BLOCK;                         \
            const int64_t at = s->reverse ? first + s->size - 1 - k : first + k, step = s->reverse ? -1 : 1;           \
            LOAD(s->x->dtype, s->x->data, at, step, n, v);                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                TYPE next = s->product ? acc * v[i] : acc + v[i];                                                      \
                v[i] = s->exclusive ? acc : next;                                                                      \
                acc = next;                                                                                            \
            }                                                                                                          \
            STORE(s->y->dtype, s->y->data, at, step, n, v);                                                            \
        }                                                                                                              \
    } while (0)

static void run_slice(const struct slices *s, int64_t first) {
    if (zt_dtype_in(s->x->dtype, ZT_ANY_INT))
        ACCUMULATE_SLICE(uint64_t, load_bits, store_bits);
    else
        ACCUMULATE_SLICE(double, zt_load_block, zt_store_block);
}

/* The slices of one index of the axes before the axis. */
static void run_block(void *arg, int64_t block) {
    const struct slices *s = arg;
    const int64_t first = block * s->size * s->inner;
    if (s->inner == 1)
        run_slice(s, first);
    for (int64_t at = 0; at < s->inner && s->inner > 1; at += ZT_ELEMENT_BLOCK)
        run_columns(s, first + at, s->inner - at < ZT_ELEMENT_BLOCK ? s->inner - at : ZT_ELEMENT_BLOCK);
}

static bool cumulate(const struct zt_call *call, bool product, struct zt_err *err) {
    const struct zt_view *x = &call->in[0];
    int axis;
    if (!zt_axis(call->graph, zt_call_node(call), zt_load_int(call->in[1].dtype, call->in[1].data, 0), x->shape.rank,
                 &axis, err))
        return false;
    struct slices slices = { .x = x,
                             .y = &call->out[0],
                             .size = x->shape.dim[axis],
                             .inner = zt_dims(&x->shape, axis + 1, x->shape.rank),
                             .product = product,
                             .exclusive = zt_attr_int(call->node, "exclusive", 0) != 0,
                             .reverse = zt_attr_int(call->node, "reverse", 0) != 0 };
    const int64_t count = zt_shape_count(&x->shape);
    zt_parallel_for(zt_threads_worth(call->threads, (double)count), count ? zt_dims(&x->shape, 0, axis) : 0, run_block,
                    &slices);
    return true;
}

static bool cum_sum_run(const struct zt_call *call, struct zt_err *err) {
    return cumulate(call, false, err);
}

static bool cum_prod_run(const struct zt_call *call, struct zt_err *err) {
    return cumulate(call, true, err);
}

/* CumSum of `value` in the reverse direction. */
static int backwards(struct zt_grad *b, int node, int value) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    struct zt_attr reverse = { .name = "reverse", .type = ZT_ATTR_INT, .i = !zt_attr_int(n, "reverse", 0) };
    int in[2] = { value, n->in[1] }, out;
    return zt_emit_node(b, &(struct zt_emission){ "CumSum", "", in, 2, n, &reverse, 1 }, &out, 1) ? out : -1;
}

/* y_i = sum of x_j, j up to i    dx_j = sum of dy_i, i from j on */
static bool cum_sum_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    zt_grad_give(b, node, 0, backwards(b, node, zt_grad_out(b, node, 0)));
    return true;
}

/* y_i = product of x_j, j up to i    dx_j = (sum of dy_i y_i, i from j on) / x_j; not defined at zeros */
static bool cum_prod_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int weighted = ZT_EMIT(b, "Mul", zt_grad_out(b, node, 0), zt_grad_graph(b)->nodes[node]->out[0]);
    int total = backwards(b, node, weighted);
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Div", total, zt_grad_graph(b)->nodes[node]->in[0]));
    return true;
}

/* A struct zt_launch_cumulate for other back ends. */
static bool cumulate_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int64_t given;
    int axis, count;
    if (!zt_known_ints(g, node, 1, &(struct zt_int_list){ &given, 1, &count }, err) ||
        !zt_axis(g, node, given, x->rank, &axis, err))
        return false;
    *(struct zt_launch_cumulate *)to = (struct zt_launch_cumulate){ .outer = zt_dims(x, 0, axis),
                                                                    .length = x->dim[axis],
                                                                    .inner = zt_dims(x, axis + 1, x->rank),
                                                                    .product = strcmp(n->op->name, "CumProd") == 0,
                                                                    .exclusive = zt_attr_int(n, "exclusive", 0) != 0,
                                                                    .reverse = zt_attr_int(n, "reverse", 0) != 0 };
    return true;
}

static bool cumulate_supports(const struct zt_graph *g, int node) {
    struct zt_launch_cumulate c;
    struct zt_err err = { 0 };
    return zt_cuda_numbers(g, node) && cumulate_describe(g, node, &c, &err);
}

static const struct zt_attr_spec cumulate_attrs[] = { { "exclusive", ZT_ATTR_INT }, { "reverse", ZT_ATTR_INT }, { 0 } };

#define CUMULATE_ROW(id, NAME, SINCE)                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(2, 2),                                                                                              \
        .in_types = { ZT_ANY_NUMBER, ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64) },                                            \
        .attrs = cumulate_attrs,                                                                                       \
        .infer = cumulate_infer,                                                                                       \
        .grad = id##_grad,                                                                                             \
        .no_grad_in = 1 << 1,                                                                                          \
        .kernel = { [ZT_REF] = { .run = id##_run },                                                                    \
                    [ZT_CUDA] = ZT_CUDA_AS(cumulate, cumulate_supports, cumulate_describe) },                          \
    };

CUMULATE_ROW(cum_prod, "CumProd", 26)
CUMULATE_ROW(cum_sum, "CumSum", 11)
