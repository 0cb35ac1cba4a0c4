#include "graph/passes/tie.h"

#include "graph/ir/op.h"

/* Adds a node that makes of `value` one with its axes permuted, or without `perm` with another shape. Returns its
 * output; -1 on failure. */
static int add_view(struct zt_graph *g, const struct zt_op_table *table, int value, const int64_t *perm,
                    const struct zt_shape *shape, struct zt_err *err) {
    const int in[2] = { value, perm ? -1 : zt_graph_add_ints(g, NULL, shape->dim, shape->rank) };
    int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const char *name = zt_arena_printf(g->arena, "%s of %s", perm ? "transpose" : "reshape", g->values[value]->name);
    const struct zt_node_spec spec = { name, perm ? "Transpose" : "Reshape", "", ZT_OPSET, in, perm ? 1 : 2, &out, 1 };
    int node = zt_graph_add_node(g, &spec);
    if (perm)
        zt_node_set_ints(g, node, "perm", perm, g->values[value]->shape.rank);
    return zt_op_resolve(table, g, node, err) ? out : -1;
}

bool zt_pass_tie(struct zt_graph *g, const struct zt_op_table *table, int from, int to, const int64_t *perm,
                 struct zt_err *err) {
    const struct zt_shape shape = g->values[from]->shape;
    int count = g->node_count, instead = perm || !zt_shape_equal(&shape, &g->values[to]->shape) ? -1 : to;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            if (g->nodes[n]->in[i] != from)
                continue;
            if (instead < 0) {
                instead = add_view(g, table, to, perm, &shape, err);
                if (instead < 0)
                    return false;
                g->nodes[g->values[instead]->producer]->place = g->nodes[n]->place;
            }
            g->nodes[n]->in[i] = instead;
        }
    g->values[from]->trainable = g->values[from]->may_train = false;
    g->values[from]->why = zt_arena_printf(g->arena, "tied to %s", g->values[to]->name);
    return zt_graph_sort(g, err);
}
