/* The axes of a reduction, read from the node (reduce.h). */
#include "ops/reduce/reduce.h"

bool zt_reduce_axes(const struct zt_graph *g, int node, bool over[ZT_MAX_RANK], struct zt_err *err) {
    const int rank = zt_in(g, node, 0)->shape.rank;
    struct zt_axis_set axes;
    if (!zt_ops_axes(g, node, (struct zt_int_source){ 1, "axes" }, rank, &axes, err))
        return false;
    const bool all = axes.count <= 0 && !zt_attr_int(g->nodes[node], "noop_with_empty_axes", 0);
    for (int k = 0; k < ZT_MAX_RANK; k++)
        over[k] = axes.has[k] || (all && k < rank);
    return true;
}
