/* The geometry of layer, RMS, instance and group normalisation, read from the node (norm.h). */
#include "ops/norm/norm.h"

#include "ops/kernel/shape.h"

#include <string.h>

static void axis_geometry(const struct zt_shape *x, int axis, struct zt_norm *to) {
    to->rows = zt_dims(x, 0, axis);
    to->length = to->per_row = zt_dims(x, axis, x->rank);
    to->period = to->per_scale = 1;
}

static bool group_geometry(const struct zt_graph *g, int node, const struct zt_shape *x, int64_t groups,
                           struct zt_norm *to, struct zt_err *err) {
    int64_t channels = x->dim[1], spatial = zt_dims(x, 2, x->rank);
    if (groups < 1 || channels % groups)
        return zt_node_fail(g, node, err, "%lld channels do not divide into num_groups = %lld", (long long)channels,
                            (long long)groups);
    to->rows = x->dim[0] * groups;
    to->length = channels / groups * spatial;
    to->period = groups;
    bool by_group = strcmp(g->nodes[node]->op_type, "GroupNormalization") == 0 && g->nodes[node]->opset < 21;
    to->per_row = by_group ? 1 : channels / groups;
    to->per_scale = by_group ? to->length : spatial;
    return true;
}

bool zt_norm_read(const struct zt_graph *g, int node, struct zt_norm *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *x = zt_in(g, node, 0);
    bool centred = strcmp(n->op->name, "RMSNormalization") != 0;
    bool by_axis = !centred || strcmp(n->op->name, "LayerNormalization") == 0;
    int axis;
    if (n->domain[0])
        return zt_norm_read_rows(g, node, 0, to, err);
    *to = (struct zt_norm){ .epsilon = (double)zt_attr_float(n, "epsilon", 1e-5f), .centred = centred };
    if (x->shape.rank < (by_axis ? 1 : 2))
        return zt_node_fail(g, node, err, "input \"%s\" has rank %d, wants %s", x->name, x->shape.rank,
                            by_axis ? "1 or more" : "2 or more (N, C, then spatial axes)");
    if (!by_axis)
        return group_geometry(g, node, &x->shape, zt_attr_int(n, "num_groups", x->shape.dim[1]), to, err);
    if (!zt_axis(g, node, zt_attr_int(n, "axis", -1), x->shape.rank, &axis, err))
        return false;
    axis_geometry(&x->shape, axis, to);
    return true;
}

bool zt_norm_read_rows(const struct zt_graph *g, int node, int x, struct zt_norm *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    int64_t count = zt_shape_count(&zt_in(g, node, x)->shape);
    *to = (struct zt_norm){ .rows = zt_attr_int(n, "rows", 1),
                            .period = zt_attr_int(n, "period", 1),
                            .per_row = zt_attr_int(n, "per_row", 1),
                            .centred = zt_attr_int(n, "centred", 1),
                            .epsilon = (double)zt_attr_float(n, "epsilon", 1e-5f) };
    bool fits = to->rows >= 0 && to->period > 0 && to->per_row >= 0 && to->rows % to->period == 0;
    to->length = fits && to->rows ? count / to->rows : 0;
    to->per_scale = fits && to->per_row ? to->length / to->per_row : 0;
    if (!fits || to->rows * to->length != count || to->per_row * to->per_scale != to->length)
        return zt_node_fail(g, node, err, "%lld elements do not divide into %lld rows of %lld parts", (long long)count,
                            (long long)to->rows, (long long)to->per_row);
    return true;
}

void zt_norm_attrs(const struct zt_norm *n, struct zt_attr to[ZT_NORM_ATTRS]) {
    to[0] = (struct zt_attr){ .name = "rows", .type = ZT_ATTR_INT, .i = n->rows };
    to[1] = (struct zt_attr){ .name = "period", .type = ZT_ATTR_INT, .i = n->period };
    to[2] = (struct zt_attr){ .name = "per_row", .type = ZT_ATTR_INT, .i = n->per_row };
    to[3] = (struct zt_attr){ .name = "centred", .type = ZT_ATTR_INT, .i = n->centred };
    to[4] = (struct zt_attr){ .name = "epsilon", .type = ZT_ATTR_FLOAT, .f = (float)n->epsilon };
}
