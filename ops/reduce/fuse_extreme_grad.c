/* The gradient of ReduceMax and ReduceMin as one node, where the CPU's kernel takes it:
 *
 *     m (dy / sum m), m = [x = y]   ->   ReduceExtremeGrad(x, y, dy)
 */
#include "graph/passes/fusion/fuse.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/reduce/extreme_grad.h"

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    if (!zt_pattern_find(g, node, "Mul(m = Cast(Equal(x, y)), Div(dy, sum = ReduceSum(m, ...)))", &m))
        return false;
    const int y = zt_match_value(&m, "y"), in[3] = { zt_match_value(&m, "x"), y, zt_match_value(&m, "dy") };
    if (!zt_match_same(&m, in[0], zt_match_result(&m)) || !zt_match_same(&m, y, in[2]) ||
        !zt_match_same(&m, y, zt_match_value(&m, "sum")) || !zt_extreme_grad_cpu_takes(g->values[in[0]], g->values[y]))
        return false;
    for (int i = 0; i < m.node_count; i++)
        g->nodes[m.node[i]]->dead = true;
    const struct zt_fused_node with = { "ReduceExtremeGrad", in, 3, NULL, 0, g->nodes[node] };
    return zt_fuse_replace(g, table, node, &with, err);
}

const struct zt_pattern zt_pattern_extreme_grad = { "extreme_grad", 1 << ZT_CPU, apply };
