/* Ops whose result has as many elements as the data say: NonZero, Compress, Unique. Their shape needs the data, so they
 * are inferred while running eagerly, or folded. */
#include "ops/kernel/shape.h"

#include "ops/kernel/compare.h"

#include <stdlib.h>
#include <string.h>

static bool need_data(const struct zt_graph *g, int node, int in, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    if (v->data || zt_shape_count(&v->shape) == 0)
        return true;
    return zt_node_fail(g, node, err, "the shape of its result depends on data: \"%s\" is not constant", v->name);
}

/* ---- NonZero: indices of the elements that are not zero, one column each ---- */

static bool non_zero_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t found = 0;
    if (!need_data(g, node, 0, err))
        return false;
    for (int64_t i = 0, count = zt_shape_count(&x->shape); i < count; i++)
        found += zt_load_double(x->dtype, x->data, i) != 0;
    zt_set_out(g, node, 0, ZT_INT64, &(struct zt_shape){ 2, { x->shape.rank, found } });
    return true;
}

static bool non_zero_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    const int64_t count = zt_shape_count(x);
    (void)err;
    zt_set_out(g, node, 0, ZT_INT64, &(struct zt_shape){ 2, { x->rank, count - (less && count > 0) } });
    return true;
}

static bool non_zero_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *x = &call->in[0];
    int64_t *y = call->out[0].data, room = call->out[0].shape.dim[1], column = 0, index[ZT_MAX_RANK] = { 0 };
    for (int64_t i = 0, count = zt_shape_count(&x->shape); i < count; i++, zt_next_index(&x->shape, index)) {
        if (zt_load_double(x->dtype, x->data, i) == 0)
            continue;
        for (int k = 0; k < x->shape.rank; k++)
            y[k * room + column] = index[k];
        column++;
    }
    return true;
}

const struct zt_op zt_op_non_zero = {
    .name = "NonZero",
    .domain = "",
    .since = 9,
    ZT_ONE_OUT(1, 1),
    .infer = non_zero_infer,
    .bound = non_zero_bound,
    .kernel = { [ZT_REF] = { .run = non_zero_run } },
};

/* ---- Compress: the slices along an axis (without one: elements) whose condition is true ---- */

/* The axis; x is taken as [outer, size, inner] around it. */
struct slices {
    int axis; /* -1: flat */
    int64_t outer, size, inner;
};

static bool slices_of(const struct zt_graph *g, int node, const struct zt_shape *x, struct slices *l,
                      struct zt_err *err) {
    *l = (struct slices){ -1, 1, zt_shape_count(x), 1 };
    if (!zt_node_attr(g->nodes[node], "axis"))
        return true;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 0), x->rank, &l->axis, err))
        return false;
    *l = (struct slices){ l->axis, zt_dims(x, 0, l->axis), x->dim[l->axis], zt_dims(x, l->axis + 1, x->rank) };
    return true;
}

/* Returns the number of conditions, for as many slices or more. */
static bool count_conditions(const struct zt_graph *g, int node, const struct slices *l, int64_t *given,
                             struct zt_err *err) {
    const struct zt_shape *condition = &zt_in(g, node, 1)->shape;
    *given = zt_shape_count(condition);
    return (condition->rank == 1 && *given <= l->size) ||
           zt_node_fail(g, node, err, "has %lld conditions for %lld slices", (long long)*given, (long long)l->size);
}

static bool set_chosen(struct zt_graph *g, int node, const struct slices *l, int64_t chosen) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = l->axis < 0 ? (struct zt_shape){ .rank = 1 } : x->shape;
    shape.dim[l->axis < 0 ? 0 : l->axis] = chosen;
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool compress_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *condition = zt_in(g, node, 1);
    struct slices l;
    int64_t chosen = 0, given;
    if (!need_data(g, node, 1, err) || !slices_of(g, node, &zt_in(g, node, 0)->shape, &l, err) ||
        !count_conditions(g, node, &l, &given, err))
        return false;
    for (int64_t i = 0; i < given; i++)
        chosen += ((const uint8_t *)condition->data)[i] != 0;
    return set_chosen(g, node, &l, chosen);
}

static bool compress_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    struct slices l;
    int64_t given;
    return slices_of(g, node, &zt_in(g, node, 0)->shape, &l, err) && count_conditions(g, node, &l, &given, err) &&
           set_chosen(g, node, &l, given - (less && given > 0));
}

static bool compress_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *condition = &call->in[1];
    struct slices l;
    if (!slices_of(call->graph, zt_call_node(call), &x->shape, &l, err))
        return false;
    size_t bytes = zt_dtype_bytes(x->dtype) * (size_t)l.inner;
    int64_t to = 0, given = zt_shape_count(&condition->shape);
    for (int64_t o = 0; o < l.outer && bytes; o++)
        for (int64_t i = 0; i < given; i++)
            if (((const uint8_t *)condition->data)[i])
                memcpy(zt_element(call->out[0].data, bytes, to++), zt_element(x->data, bytes, o * l.size + i), bytes);
    return true;
}

/* dx = dy scattered to the indices where the condition holds: everywhere, for the bound of a condition that is unknown
 */
static bool compress_grad(struct zt_grad *b, int node, struct zt_err *err) {
    const struct zt_value *condition = zt_in(zt_grad_graph(b), node, 1);
    struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    struct slices l;
    if (!slices_of(zt_grad_graph(b), node, &x, &l, err))
        return false;
    int64_t count = 0, given = zt_shape_count(&condition->shape);
    int64_t *chosen = zt_calloc((size_t)given, sizeof *chosen);
    for (int64_t i = 0; i < given; i++)
        if (!condition->data || ((const uint8_t *)condition->data)[i])
            chosen[count++] = i;
    int indices = zt_emit_ints(b, chosen, (int)count), dx;
    free(chosen);
    int in[2] = { zt_grad_out(b, node, 0), indices };
    struct zt_attr attrs[] = {
        { .name = "axis", .type = ZT_ATTR_INT, .i = l.axis < 0 ? 0 : l.axis },
        { .name = "shape",
          .type = ZT_ATTR_INTS,
          .count = x.rank,
          .ints = zt_arena_copy(zt_grad_graph(b)->arena, x.dim, sizeof x.dim) },
    };
    if (l.axis < 0) {
        attrs[1].count = 1;
        attrs[1].ints = zt_arena_copy(zt_grad_graph(b)->arena, &l.size, sizeof l.size);
    }
    zt_emit_node(b, &(struct zt_emission){ "GatherGrad", "ztrain", in, 2, NULL, attrs, 2 }, &dx, 1);
    zt_grad_give(b, node, 0, zt_emit_reshape_like(b, dx, zt_grad_graph(b)->nodes[node]->in[0]));
    return true;
}

static const struct zt_attr_spec with_axis[] = { { "axis", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_compress = {
    .name = "Compress",
    .domain = "",
    .since = 9,
    ZT_ONE_OUT(2, 2),
    .in_types = { 0, ZT_BIT(ZT_BOOL) },
    .attrs = with_axis,
    .infer = compress_infer,
    .bound = compress_bound,
    .grad = compress_grad,
    .no_grad_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = compress_run } },
};

/* ---- Unique: slices along an axis (without one: elements) that differ, sorted or in order of first appearance ---- */

/* -1, 0, 1 as slice i stands before, at or behind slice j. */
static int order_slices(enum zt_dtype dtype, const void *x, const struct slices *l, int64_t i, int64_t j) {
    for (int64_t o = 0; o < l->outer; o++)
        for (int64_t k = 0; k < l->inner; k++) {
            int64_t base = o * l->size * l->inner + k;
            int order = zt_compare_elements(dtype, x, base + i * l->inner, base + j * l->inner);
            if (order)
                return order;
        }
    return 0;
}

static bool first_of_its_kind(enum zt_dtype dtype, const void *x, const struct slices *l, int64_t i) {
    for (int64_t j = 0; j < i; j++)
        if (order_slices(dtype, x, l, i, j) == 0)
            return false;
    return true;
}

static bool set_kinds(struct zt_graph *g, int node, const struct slices *l, int64_t found) {
    zt_set_out(g, node, 1, ZT_INT64, &(struct zt_shape){ 1, { found } });
    zt_set_out(g, node, 2, ZT_INT64, &(struct zt_shape){ 1, { l->size } });
    zt_set_out(g, node, 3, ZT_INT64, &(struct zt_shape){ 1, { found } });
    return set_chosen(g, node, l, found);
}

static bool unique_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct slices l;
    int64_t found = 0;
    if (!need_data(g, node, 0, err) || !slices_of(g, node, &x->shape, &l, err))
        return false;
    for (int64_t i = 0; i < l.size; i++)
        found += first_of_its_kind(x->dtype, x->data, &l, i);
    return set_kinds(g, node, &l, found);
}

static bool unique_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    struct slices l;
    return slices_of(g, node, &zt_in(g, node, 0)->shape, &l, err) &&
           set_kinds(g, node, &l, l.size - (less && l.size > 0));
}

/* Returns the position in the result of slice i, the first of its kind: behind all kinds that sort or appear before it.
 */
static int64_t place_of(const struct zt_view *x, const struct slices *l, int64_t i, bool sorted) {
    int64_t place = 0;
    for (int64_t j = 0; j < l->size; j++)
        if ((sorted ? order_slices(x->dtype, x->data, l, j, i) < 0 : j < i) &&
            first_of_its_kind(x->dtype, x->data, l, j))
            place++;
    return place;
}

static void put_slice(const struct zt_view *x, const struct zt_view *y, const struct slices *l, int64_t from,
                      int64_t to, int64_t kinds) {
    size_t bytes = zt_dtype_bytes(x->dtype) * (size_t)l->inner;
    for (int64_t o = 0; o < l->outer && bytes; o++)
        memcpy(zt_element(y->data, bytes, o * kinds + to), zt_element(x->data, bytes, o * l->size + from), bytes);
}

static int64_t *ints_out(const struct zt_call *call, int i) {
    return i < call->out_count ? call->out[i].data : NULL;
}

static bool unique_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    int64_t *first = ints_out(call, 1), *inverse = ints_out(call, 2), *counts = ints_out(call, 3);
    bool sorted = zt_attr_int(call->node, "sorted", 1) != 0;
    struct slices l;
    if (!slices_of(call->graph, zt_call_node(call), &x->shape, &l, err))
        return false;
    int64_t kinds = y->shape.dim[l.axis < 0 ? 0 : l.axis];
    for (int64_t i = 0; i < l.size; i++) {
        if (!first_of_its_kind(x->dtype, x->data, &l, i))
            continue;
        int64_t place = place_of(x, &l, i, sorted), same = 0;
        put_slice(x, y, &l, i, place, kinds);
        for (int64_t j = i; j < l.size; j++)
            if (order_slices(x->dtype, x->data, &l, i, j) == 0) {
                same++;
                if (inverse)
                    inverse[j] = place;
            }
        if (first)
            first[place] = i;
        if (counts)
            counts[place] = same;
    }
    return true;
}

static const struct zt_attr_spec unique_attrs[] = { { "axis", ZT_ATTR_INT }, { "sorted", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_unique = {
    .name = "Unique",
    .domain = "",
    .since = 11,
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 4,
    .attrs = unique_attrs,
    .infer = unique_infer,
    .bound = unique_bound,
    .kernel = { [ZT_REF] = { .run = unique_run } },
};
