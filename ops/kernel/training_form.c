#include "ops/kernel/training_form.h"

#include <string.h>

bool zt_train_rewrite(struct zt_graph *g, int node, const struct zt_op *row, int out_count, struct zt_err *err) {
    int *out = ZT_NEW_N(g->arena, int, out_count);
    for (int i = 0; i < out_count; i++) {
        int had = i < g->nodes[node]->out_count ? g->nodes[node]->out[i] : -1;
        out[i] = had >= 0 ? had : zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
        g->values[out[i]]->producer = node;
    }
    struct zt_node *n = g->nodes[node];
    n->op_type = row->name;
    n->domain = row->domain;
    n->opset = row->since;
    n->op = row;
    n->out = out;
    n->out_count = out_count;
    return zt_op_infer(g, node, err);
}
