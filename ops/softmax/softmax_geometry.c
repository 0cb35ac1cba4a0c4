/* The slices of Softmax, read from the node (softmax.h). */
#include "ops/softmax/softmax.h"

bool zt_softmax_is_flat(const struct zt_node *n) {
    return n->domain[0] ? zt_attr_int(n, "flat", 0) : n->opset < 13;
}

bool zt_softmax_read(const struct zt_graph *g, int node, struct zt_axis_slices *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    bool flat = zt_softmax_is_flat(n);
    int axis;
    if (!zt_axis(g, node, zt_attr_int(n, "axis", flat ? 1 : -1), x->rank, &axis, err))
        return false;
    *to = flat ? (struct zt_axis_slices){ zt_dims(x, 0, axis), zt_dims(x, axis, x->rank), 1 }
               : zt_axis_slices_along(x, axis);
    return true;
}
