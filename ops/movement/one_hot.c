/* OneHot and Trilu: patterns of indices. */
#include "ops/movement/launch_pad.h"
#include "ops/movement/kernels.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/strided_copy.h"

#include "ops/kernel/element_blocks.h"

#include <string.h>

/* ---- OneHot:  y = values[1] where the index along the new axis is the given one, else values[0] ---- */

static bool one_hot_axis(const struct zt_graph *g, int node, int rank, int *axis, struct zt_err *err) {
    return zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", -1), rank + 1, axis, err);
}

static bool one_hot_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *indices = zt_in(g, node, 0), *values = zt_in(g, node, 2);
    struct zt_shape shape = { 0 };
    int64_t depth;
    int axis, count;
    if (!zt_ops_rank(g, node, indices->shape.rank + 1, err) ||
        !zt_known_ints(g, node, 1, &(struct zt_int_list){ &depth, 1, &count }, err) ||
        !one_hot_axis(g, node, indices->shape.rank, &axis, err))
        return false;
    if (count != 1 || depth < 0 || zt_shape_count(&values->shape) != 2)
        return zt_node_fail(g, node, err, "wants one depth, not negative, and two values");
    for (int k = 0; k <= indices->shape.rank; k++)
        shape.dim[shape.rank++] = k == axis ? depth : indices->shape.dim[k - (k > axis)];
    zt_set_out(g, node, 0, values->dtype, &shape);
    return true;
}

static bool one_hot_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *indices = &call->in[0], *values = &call->in[2], *y = &call->out[0];
    size_t bytes = zt_dtype_bytes(y->dtype);
    int axis;
    if (!one_hot_axis(call->graph, zt_call_node(call), indices->shape.rank, &axis, err))
        return false;
    int64_t inner = zt_dims(&y->shape, axis + 1, y->shape.rank), depth = y->shape.dim[axis];
    const struct zt_strided_copy fill = { .shape = { 1, { zt_shape_count(&y->shape) } }, .to_step = { 1 } };
    zt_strided_copy_run(call->threads, bytes, &fill, y->data, values->data);
    for (int64_t i = 0, count = zt_shape_count(&indices->shape); i < count; i++) {
        int64_t place = zt_wrap_index(zt_load_int(indices->dtype, indices->data, i), depth);
        if (place >= 0)
            memcpy(zt_element(y->data, bytes, (i / inner * depth + place) * inner + i % inner),
                   zt_element(values->data, bytes, 1), bytes);
    }
    return true;
}

/* A struct zt_launch_one_hot for other back ends. */
static bool one_hot_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_shape *y = &zt_out(g, node, 0)->shape;
    int axis;
    if (!one_hot_axis(g, node, y->rank - 1, &axis, err))
        return false;
    *(struct zt_launch_one_hot *)to = (struct zt_launch_one_hot){ .index_dtype = zt_in(g, node, 0)->dtype,
                                                                  .outer = zt_dims(y, 0, axis),
                                                                  .depth = y->dim[axis],
                                                                  .inner = zt_dims(y, axis + 1, y->rank) };
    return true;
}

static bool one_hot_supports(const struct zt_graph *g, int node) {
    const unsigned types = ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64);
    return zt_dtype_in(zt_in(g, node, 0)->dtype, types);
}

/* dvalues = [sum dy off the marks, sum dy on them] */
static bool one_hot_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0), mask;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int indices = n->in[0], depth = n->in[1];
    struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = zt_attr_int(n, "axis", -1) };
    int64_t one = 1;
    int marks = zt_emit_cast(b, zt_emit_ints(b, (int64_t[]){ 0, 1 }, 2), zt_grad_dtype(b, node));
    int in[3] = { indices, depth, marks };
    zt_emit_node(b, &(struct zt_emission){ "OneHot", "", in, 3, NULL, &axis, 1 }, &mask, 1);
    int length = zt_emit_ints(b, &one, 1);
    int all = ZT_EMIT(b, "Reshape", ZT_EMIT(b, "ReduceSum", dy), length);
    int on = ZT_EMIT(b, "Reshape", ZT_EMIT(b, "ReduceSum", ZT_EMIT(b, "Mul", dy, mask)), length);
    int parts[2] = { ZT_EMIT(b, "Sub", all, on), on }, both;
    struct zt_attr first = { .name = "axis", .type = ZT_ATTR_INT };
    zt_emit_node(b, &(struct zt_emission){ "Concat", "", parts, 2, NULL, &first, 1 }, &both, 1);
    zt_grad_give(b, node, 2, both);
    return true;
}

static const struct zt_attr_spec with_axis[] = { { "axis", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_one_hot = {
    .name = "OneHot",
    .domain = "",
    .since = 9,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_NUMBER, ZT_ANY_NUMBER },
    .attrs = with_axis,
    .infer = one_hot_infer,
    .grad = one_hot_grad,
    .no_grad_in = 1 << 0 | 1 << 1,
    .kernel = { [ZT_REF] = { .run = one_hot_run },
                [ZT_CUDA] = ZT_CUDA_AS(one_hot, one_hot_supports, one_hot_describe) },
};

/* ---- Trilu:  the upper or lower triangle from diagonal k on, zeros elsewhere; dx = the same triangle of dy ---- */

static bool trilu_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0), *k = zt_in(g, node, 1);
    if (x->shape.rank < 2)
        return zt_node_fail(g, node, err, "wants matrices, has %d axes", x->shape.rank);
    if (k && zt_shape_count(&k->shape) != 1)
        return zt_node_fail(g, node, err, "diagonal \"%s\" is not a scalar", k->name);
    return zt_infer_first(g, node, err);
}

static bool trilu_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0];
    size_t bytes = zt_dtype_bytes(x->dtype);
    bool upper = zt_attr_int(call->node, "upper", 1) != 0;
    const int64_t far = INT64_C(1) << 40; /* beyond any diagonal, so that sums below stay in range */
    int64_t k = call->in_count > 1 && call->in[1].data ? zt_load_int(call->in[1].dtype, call->in[1].data, 0) : 0;
    int64_t rows = x->shape.dim[x->shape.rank - 2], columns = x->shape.dim[x->shape.rank - 1];
    k = k > far ? far : k < -far ? -far : k;
    zt_run_copy(call, err);
    for (int64_t row = 0, count = columns ? zt_shape_count(&x->shape) / columns : 0; row < count; row++) {
        int64_t edge = row % rows + k + !upper; /* first column of the upper triangle, first behind the lower one */
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        memset(zt_element(call->out[0].data, bytes, row * columns + (upper ? 0 : edge)), 0,
               bytes * (size_t)(upper ? edge : columns - edge));
    }
    return true;
}

static bool trilu_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    const int64_t far = INT64_C(1) << 40;
    int64_t k = 0;
    int count;
    if (!zt_known_ints(g, node, 1, &(struct zt_int_list){ &k, 1, &count }, err))
        return false;
    *(struct zt_launch_triangle *)to = (struct zt_launch_triangle){ .count = zt_shape_count(x),
                                                                    .rows = x->dim[x->rank - 2],
                                                                    .columns = x->dim[x->rank - 1],
                                                                    .k = k > far    ? far
                                                                         : k < -far ? -far
                                                                                    : k,
                                                                    .upper = zt_attr_int(g->nodes[node], "upper", 1) };
    return true;
}

static bool trilu_supports(const struct zt_graph *g, int node) {
    struct zt_launch_triangle t;
    struct zt_err err = { 0 };
    return trilu_describe(g, node, &t, &err);
}

static bool trilu_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0), dx;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[2] = { dy, n->in_count > 1 ? n->in[1] : -1 };
    zt_emit_node(b, &(struct zt_emission){ "Trilu", "", in, 2, n }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    return true;
}

static const struct zt_attr_spec with_upper[] = { { "upper", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_trilu = {
    .name = "Trilu",
    .domain = "",
    .since = 14,
    ZT_ONE_OUT(1, 2),
    .in_types = { 0, ZT_BIT(ZT_INT64) },
    .attrs = with_upper,
    .infer = trilu_infer,
    .grad = trilu_grad,
    .no_grad_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = trilu_run }, [ZT_CUDA] = ZT_CUDA_AS(triangle, trilu_supports, trilu_describe) },
};
