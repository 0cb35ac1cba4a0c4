/* The axes of a reduction, read from the node (reduce.h). */
#include "ops/reduce/reduce.h"

bool zt_reduce_axes(const struct zt_graph *g, int node, bool marked[ZT_MAX_RANK], struct zt_err *err) {
    int rank = zt_in(g, node, 0)->shape.rank, count;
    if (!zt_ops_axes(g, node, 1, "axes", rank, marked, &count, err))
        return false;
    if (count <= 0 && !zt_attr_int(g->nodes[node], "noop_with_empty_axes", 0))
        for (int k = 0; k < rank; k++)
            marked[k] = true;
    return true;
}
