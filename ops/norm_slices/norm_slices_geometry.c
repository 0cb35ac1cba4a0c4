/* The geometry of the normalisations without learned scale, read from their nodes (norm_slices.h). */
#include "ops/norm_slices/norm_slices.h"

bool zt_lp_read(const struct zt_graph *g, int node, struct zt_axis_slices *slices, int *p, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int axis;
    *p = zt_attr_int(g->nodes[node], "p", 2) == 1 ? 1 : 2;
    if (zt_attr_int(g->nodes[node], "p", 2) != *p)
        return zt_node_fail(g, node, err, "p = %lld, allowed 1 and 2", (long long)zt_attr_int(g->nodes[node], "p", 2));
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", -1), x->rank, &axis, err))
        return false;
    *slices = zt_axis_slices_along(x, axis);
    return true;
}

bool zt_lrn_read(const struct zt_graph *g, int node, struct zt_lrn *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t size = zt_attr_int(n, "size", 1);
    if (x->shape.rank < 2)
        return zt_node_fail(g, node, err, "input \"%s\" has rank %d, wants 2 or more (N, C, then spatial axes)",
                            x->name, x->shape.rank);
    if (size < 1)
        return zt_node_fail(g, node, err, "size = %lld, wants 1 or more", (long long)size);
    *to = (struct zt_lrn){ zt_axis_slices_along(&x->shape, 1),
                           (size - 1) / 2,
                           size / 2,
                           (double)zt_attr_float(n, "alpha", 1e-4f) / (double)size,
                           (double)zt_attr_float(n, "beta", 0.75f),
                           (double)zt_attr_float(n, "bias", 1) };
    return true;
}

bool zt_mvn_read(const struct zt_graph *g, int node, struct zt_mvn *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    struct zt_axis_set axes;
    int64_t stride[ZT_MAX_RANK];
    if (!zt_ops_axes(g, node, (struct zt_int_source){ -1, "axes" }, x->rank, &axes, err))
        return false;
    if (axes.count < 0 && x->rank != 4)
        return zt_node_fail(g, node, err, "input of rank %d, wants 4 where axes are not given", x->rank);
    zt_shape_strides(x, stride);
    *to = (struct zt_mvn){ 0 };
    for (int k = 0; k < x->rank; k++) {
        bool over = axes.count < 0 ? k != 1 : axes.has[k];
        struct zt_shape *s = over ? &to->over : &to->groups;
        to->marked[k] = over;
        (over ? to->over_step : to->group_step)[s->rank] = stride[k];
        s->dim[s->rank++] = x->dim[k];
    }
    return true;
}
