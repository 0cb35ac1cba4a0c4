/* TopK: the k largest (or smallest) elements along an axis, in order; of equal elements the first. dx is dvalues at the
 * indices, 0 elsewhere.
 *
 * Elements are totally ordered by (value, index). The output of indices is a sorted list, into which elements that come
 * before its last one are inserted, at the place that bisection finds. Without this output, k passes find each element
 * that follows the last result, which needs no memory. */
#include "device/threads.h"
#include "ops/reduce/launch_axis_slices.h"
#include "ops/reduce/kernels.h"
#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include "ops/kernel/compare.h"

#include <string.h>

static bool top_k_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = x->shape;
    int64_t k = zt_attr_int(g->nodes[node], "k", -1);
    int axis, count;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", -1), shape.rank, &axis, err) ||
        !zt_known_ints(g, node, 1, &(struct zt_int_list){ &k, 1, &count }, err))
        return false;
    if (count == 0 || k < 0 || k > shape.dim[axis])
        return zt_node_fail(g, node, err, "wants %lld of %lld elements", (long long)k, (long long)shape.dim[axis]);
    shape.dim[axis] = k;
    zt_set_out(g, node, 0, x->dtype, &shape);
    zt_set_out(g, node, 1, ZT_INT64, &shape);
    return true;
}

/* The best element of a slice that comes after element `last` (-1: any); elements are `step` apart from `first`. */
static int64_t next_best(const struct zt_view *x, int64_t first, int64_t step, int64_t count, int64_t last, int sign) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        if (last >= 0) {
            int order = sign * zt_compare_elements(x->dtype, x->data, first + i * step, first + last * step);
            if (order > 0 || (order == 0 && i <= last))
                continue;
        }
        if (best < 0 || sign * zt_compare_elements(x->dtype, x->data, first + i * step, first + best * step) > 0)
            best = i;
    }
    return best;
}

struct top {
    const struct zt_view *x, *values;
    int64_t *places, k, size, inner;
    int sign;
};

/* Whether element i of the slice that begins at `from` comes before the one at place `at` of the list. */
static bool comes_before(const struct top *t, int64_t from, int64_t i, const int64_t *places, int64_t at) {
    const int64_t other = places[at * t->inner];
    return t->sign * zt_compare_elements(t->x->dtype, t->x->data, from + i * t->inner, from + other * t->inner) > 0;
}

/* The k best of the slice that begins at `from`, into places[i * inner]. An element goes behind its equals. */
static void insert_places(const struct top *t, int64_t from, int64_t *places) {
    for (int64_t i = 0, have = 0; i < t->size && t->k; i++) {
        if (have == t->k && !comes_before(t, from, i, places, have - 1))
            continue;
        int64_t low = 0, high = have;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (comes_before(t, from, i, places, middle))
                high = middle;
            else
                low = middle + 1;
        }
        have += have < t->k;
        for (int64_t e = have - 1; e > low; e--)
            places[e * t->inner] = places[(e - 1) * t->inner];
        places[low * t->inner] = i;
    }
}

static void top_slice(void *arg, int64_t slice) {
    const struct top *t = arg;
    const size_t bytes = zt_dtype_bytes(t->x->dtype);
    const int64_t from = slice / t->inner * t->size * t->inner + slice % t->inner;
    const int64_t to = slice / t->inner * t->k * t->inner + slice % t->inner;
    int64_t last = -1;
    if (t->places)
        insert_places(t, from, t->places + to);
    for (int64_t i = 0; i < t->k && t->values->data; i++) {
        last = t->places ? t->places[to + i * t->inner] : next_best(t->x, from, t->inner, t->size, last, t->sign);
        memcpy(zt_element(t->values->data, bytes, to + i * t->inner),
               zt_element(t->x->data, bytes, from + last * t->inner), bytes);
    }
}

static bool top_k_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *x = &call->in[0];
    int64_t axis = zt_attr_int(call->node, "axis", -1);
    axis += axis < 0 ? x->shape.rank : 0;
    struct top t = { .x = x,
                     .values = &call->out[0],
                     .places = call->out_count > 1 ? call->out[1].data : NULL,
                     .k = call->node->out[0] >= 0 ? call->out[0].shape.dim[axis] : call->out[1].shape.dim[axis],
                     .size = x->shape.dim[axis],
                     .inner = zt_dims(&x->shape, (int)axis + 1, x->shape.rank),
                     .sign = zt_attr_int(call->node, "largest", 1) ? 1 : -1 };
    zt_parallel_for(zt_threads_worth(call->threads, (double)zt_shape_count(&x->shape)),
                    zt_dims(&x->shape, 0, (int)axis) * t.inner, top_slice, &t);
    return true;
}

/* A struct zt_launch_top_k for other back ends. */
static bool top_k_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    const struct zt_value *values = zt_out(g, node, 0), *y = values ? values : zt_out(g, node, 1);
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", -1), x->rank, &axis, err))
        return false;
    const struct zt_axis_slices slices = zt_axis_slices_along(x, axis);
    *(struct zt_launch_top_k *)to = (struct zt_launch_top_k){ .outer = slices.outer,
                                                              .length = slices.length,
                                                              .inner = slices.inner,
                                                              .k = y->shape.dim[axis],
                                                              .least = !zt_attr_int(g->nodes[node], "largest", 1) };
    return true;
}

static bool top_k_grad(struct zt_grad *b, int node, struct zt_err *err) {
    int dy = zt_grad_out(b, node, 0);
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    if (n->out_count < 2 || n->out[1] < 0)
        return zt_node_fail(zt_grad_graph(b), node, err, "has a gradient only where its indices are an output too");
    int x = n->in[0], places = n->out[1], dx;
    struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = zt_attr_int(n, "axis", -1) };
    int in[3] = { zt_emit_zeros_like(b, x), places, dy };
    zt_emit_node(b, &(struct zt_emission){ "ScatterElements", "", in, 3, NULL, &axis, 1 }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    return true;
}

static const struct zt_attr_spec top_k_attrs_1[] = { { "axis", ZT_ATTR_INT }, { "k", ZT_ATTR_INT, true }, { 0 } };
static const struct zt_attr_spec top_k_attrs_10[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec top_k_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "largest", ZT_ATTR_INT }, { "sorted", ZT_ATTR_INT }, { 0 }
};

#define TOP_K_ROW(id, SINCE, UNTIL, COUNT, ATTRS)                                                                      \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = "TopK",                                                                                                \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        .min_in = COUNT,                                                                                               \
        .max_in = COUNT,                                                                                               \
        .min_out = 2,                                                                                                  \
        .max_out = 2,                                                                                                  \
        .in_types = { ZT_ANY_NUMBER, ZT_BIT(ZT_INT64) },                                                               \
        .attrs = ATTRS,                                                                                                \
        .infer = top_k_infer,                                                                                          \
        .grad = top_k_grad,                                                                                            \
        .no_grad_in = 1 << 1,                                                                                          \
        .body = zt_top_k_old_function_body,                                                                            \
        .kernel = { [ZT_REF] = { .run = top_k_run }, [ZT_CUDA] = ZT_CUDA_AS(top_k, zt_cuda_numbers, top_k_describe) }, \
    };

TOP_K_ROW(top_k_1, 1, 9, 1, top_k_attrs_1)
TOP_K_ROW(top_k_10, 10, 10, 2, top_k_attrs_10)
TOP_K_ROW(top_k, 11, 0, 2, top_k_attrs)
