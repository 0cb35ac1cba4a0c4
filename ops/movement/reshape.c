/* Ops that only rename axes: the bytes stay, so all of them are views. dx = dy in the shape of x. */
#include "ops/movement/kernels.h"
#include "ops/kernel/strided_copies.h"
#include "ops/kernel/shape.h"
#include "ops/sequence/sequence.h"

static bool reshape_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    const int64_t total = zt_shape_count(&x->shape);
    struct zt_shape shape = { 0 };
    int hole = -1;
    bool allow_zero = zt_attr_int(g->nodes[node], "allowzero", 0) != 0;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ 1, NULL },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err))
        return false;
    for (int k = 0; k < shape.rank; k++) {
        if (shape.dim[k] == -1 && hole < 0)
            hole = k;
        else if (shape.dim[k] == 0 && !allow_zero && k < x->shape.rank)
            shape.dim[k] = x->shape.dim[k];
        else if (shape.dim[k] < 0 || (shape.dim[k] == 0 && !allow_zero))
            return zt_node_fail(g, node, err, "number %d of the shape is %lld", k, (long long)shape.dim[k]);
    }
    if (hole >= 0) {
        shape.dim[hole] = 1;
        int64_t rest = zt_shape_count(&shape);
        shape.dim[hole] = rest > 0 ? total / rest : 0;
    }
    char from[ZT_SHAPE_TEXT], to[ZT_SHAPE_TEXT];
    if (zt_shape_count(&shape) != total)
        return zt_node_fail(g, node, err, "%s does not fit into %s", zt_shape_text(&x->shape, from),
                            zt_shape_text(&shape, to));
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool flatten_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t axis = zt_attr_int(g->nodes[node], "axis", 1);
    if (axis < -x->shape.rank || axis > x->shape.rank)
        return zt_node_fail(g, node, err, "axis %lld is outside -%d..%d", (long long)axis, x->shape.rank,
                            x->shape.rank);
    axis += axis < 0 ? x->shape.rank : 0;
    struct zt_shape shape = { 2, { zt_dims(&x->shape, 0, (int)axis), zt_dims(&x->shape, (int)axis, x->shape.rank) } };
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool squeeze_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = { 0 };
    struct zt_axis_set axes;
    if (!zt_ops_axes(g, node, (struct zt_int_source){ 1, "axes" }, x->shape.rank, &axes, err))
        return false;
    for (int k = 0; k < x->shape.rank; k++) {
        if (axes.count >= 0 && axes.has[k] && x->shape.dim[k] != 1)
            return zt_node_fail(g, node, err, "axis %d has size %lld, only 1 can be squeezed", k,
                                (long long)x->shape.dim[k]);
        if (axes.count >= 0 ? !axes.has[k] : x->shape.dim[k] != 1)
            shape.dim[shape.rank++] = x->shape.dim[k];
    }
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool unsqueeze_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t axes[ZT_MAX_RANK];
    struct zt_axis_set added;
    int count;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ 1, "axes" }, &(struct zt_int_list){ axes, ZT_MAX_RANK, &count },
                     err) ||
        !zt_ops_rank(g, node, x->shape.rank + count, err) ||
        !zt_ops_axes(g, node, (struct zt_int_source){ 1, "axes" }, x->shape.rank + count, &added, err))
        return false;
    struct zt_shape shape = { .rank = x->shape.rank + count };
    for (int k = 0, from = 0; k < shape.rank; k++)
        shape.dim[k] = added.has[k] ? 1 : x->shape.dim[from++];
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static const struct zt_attr_spec with_allow_zero[] = { { "allowzero", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec with_axis[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec with_axes[] = { { "axes", ZT_ATTR_INTS }, { 0 } };
static const struct zt_attr_spec with_needed_axes[] = { { "axes", ZT_ATTR_INTS, true }, { 0 } };

/* The copy of a view that does not share the memory of its input. */
#define view_moves zt_strided_copies_whole
ZT_MOVES_DESCRIBE(view, false)

#define VIEW_ROW(id, NAME, SINCE, UNTIL, LEAST, MOST, SHAPE_IN, ATTRS, INFER)                                          \
    VIEW_ROW_WITH(id, NAME, SINCE, UNTIL, LEAST, MOST, SHAPE_IN, ATTRS, INFER, 0, NULL)
#define VIEW_ROW_WITH(id, NAME, SINCE, UNTIL, LEAST, MOST, SHAPE_IN, ATTRS, INFER, FLAGS, EXPAND)                      \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(LEAST, MOST),                                                                                       \
        .flags = ZT_OP_VIEW | (FLAGS),                                                                                 \
        .in_types = { ZT_ANY_STORED, ZT_BIT(ZT_INT64) },                                                               \
        .attrs = ATTRS,                                                                                                \
        .infer = INFER,                                                                                                \
        .expand = EXPAND,                                                                                              \
        .grad = zt_grad_reshape,                                                                                       \
        .shape_in = SHAPE_IN,                                                                                          \
        .no_grad_in = 1 << 1,                                                                                          \
        .body = zt_axes_old_function_body,                                                                             \
        .kernel = { [ZT_REF] = { .run = zt_run_copy },                                                                 \
                    [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, view_describe) },                              \
    };

VIEW_ROW(flatten, "Flatten", 1, 0, 1, 1, 0, with_axis, flatten_infer)
VIEW_ROW_WITH(identity, "Identity", 1, 0, 1, 1, 0, NULL, zt_infer_first, ZT_OP_LISTS, zt_sequence_identity)
/* ztrain.Detach(x) -> x, where gradients stop. */
const struct zt_op zt_op_detach = {
    .name = "Detach",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_VIEW,
    .infer = zt_infer_first,
    .body = zt_detach_function_body,
    .kernel = { [ZT_REF] = { .run = zt_run_copy }, [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, view_describe) },
};
VIEW_ROW(reshape, "Reshape", 5, 0, 2, 2, 1 << 1, with_allow_zero, reshape_infer)
VIEW_ROW(squeeze_1, "Squeeze", 1, 12, 1, 1, 0, with_axes, squeeze_infer)
VIEW_ROW(squeeze, "Squeeze", 13, 0, 1, 2, 0, NULL, squeeze_infer)
VIEW_ROW(unsqueeze_1, "Unsqueeze", 1, 12, 1, 1, 0, with_needed_axes, unsqueeze_infer)
VIEW_ROW(unsqueeze, "Unsqueeze", 13, 0, 2, 2, 0, NULL, unsqueeze_infer)
