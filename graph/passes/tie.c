#include "graph/passes/tie.h"

#include "graph/ir/op.h"

/* The transpose of `value` in front of node `reader`; -1 on failure. */
static int add_transpose(struct zt_graph *g, const struct zt_op_table *table, int value, const int64_t *perm,
                         int reader, struct zt_err *err) {
    int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const char *name = zt_arena_printf(g->arena, "transpose of %s", g->values[value]->name);
    int64_t place = g->nodes[reader]->place;
    int node = zt_graph_add_node(g, &(struct zt_node_spec){ name, "Transpose", "", ZT_OPSET, &value, 1, &out, 1 });
    g->nodes[node]->place = place;
    zt_node_set_ints(g, node, "perm", perm, g->values[value]->shape.rank);
    return zt_op_resolve(table, g, node, err) ? out : -1;
}

/* The same in another shape. */
static int add_reshape(struct zt_graph *g, const struct zt_op_table *table, int value, const struct zt_shape *shape,
                       int reader, struct zt_err *err) {
    const int in[2] = { value, zt_graph_add_ints(g, NULL, shape->dim, shape->rank) };
    int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const char *name = zt_arena_printf(g->arena, "reshape of %s", g->values[value]->name);
    int64_t place = g->nodes[reader]->place;
    int node = zt_graph_add_node(g, &(struct zt_node_spec){ name, "Reshape", "", ZT_OPSET, in, 2, &out, 1 });
    g->nodes[node]->place = place;
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
            if (instead < 0)
                instead = perm ? add_transpose(g, table, to, perm, n, err) : add_reshape(g, table, to, &shape, n, err);
            if (instead < 0)
                return false;
            g->nodes[n]->in[i] = instead;
        }
    g->values[from]->trainable = g->values[from]->may_train = false;
    g->values[from]->why = zt_arena_printf(g->arena, "tied to %s", g->values[to]->name);
    return zt_graph_sort(g, err);
}
