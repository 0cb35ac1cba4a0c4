#include "graph/passes/recompute/peak.h"

#include "base/arena.h"
#include "graph/ir/op.h"

#include <stdlib.h>

static int root_of(int *parent, int value) {
    while (parent[value] != value)
        value = parent[value] = parent[parent[value]];
    return value;
}

static void find_last(const struct zt_graph *g, const struct zt_graph_roots *roots, int *parent, int *last) {
    for (int i = 0; i < g->value_count; i++) {
        parent[i] = i;
        last[i] = -1;
    }
    for (int n = 0; n < g->node_count; n++)
        if (g->nodes[n]->op->flags & ZT_OP_VIEW && g->nodes[n]->in[0] >= 0 && g->nodes[n]->out[0] >= 0)
            parent[g->nodes[n]->out[0]] = root_of(parent, g->nodes[n]->in[0]);
    for (int n = 0; n < g->node_count; n++) {
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0)
                last[root_of(parent, g->nodes[n]->in[i])] = n;
        for (int i = 0; i < g->nodes[n]->out_count; i++)
            if (g->nodes[n]->out[i] >= 0)
                last[root_of(parent, g->nodes[n]->out[i])] = n;
    }
    for (int i = 0; i < roots->output_count; i++)
        if (roots->outputs[i] >= 0)
            last[root_of(parent, roots->outputs[i])] = g->node_count;
}

/* Output 0 reuses the memory of an input at its last use. */
static void share_in_place(const struct zt_graph *g, const bool *outside, int *parent, int *last) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const int on = zt_op_in_place(node);
        if (on < 0 || outside[node->out[0]])
            continue;
        int from = root_of(parent, on), to = node->out[0];
        if (last[from] != n || g->values[from]->producer < 0 || outside[from] || root_of(parent, to) != to ||
            zt_value_bytes(g->values[from]) != zt_value_bytes(g->values[to]))
            continue;
        parent[to] = from;
        last[from] = last[to];
    }
}

int64_t zt_recompute_peak(const struct zt_graph *g, const struct zt_graph_roots *roots) {
    size_t values = (size_t)g->value_count + 1;
    bool *outside = zt_graph_from_params(g);
    int *parent = zt_malloc(values * sizeof *parent), *last = zt_malloc(values * sizeof *last);
    int64_t *change = zt_calloc((size_t)g->node_count + 2, sizeof *change), now = 0, peak = 0;
    for (int i = 0; i < roots->grad_count; i++)
        if (roots->grads[i] >= 0)
            outside[roots->grads[i]] = true;
    find_last(g, roots, parent, last);
    share_in_place(g, outside, parent, last);
    for (int i = 0; i < g->value_count; i++) {
        int n = g->values[i]->producer;
        if (n < 0 || outside[i] || root_of(parent, i) != i)
            continue;
        change[n] += zt_value_bytes(g->values[i]);
        change[last[i] + 1 <= g->node_count ? last[i] + 1 : g->node_count + 1] -= zt_value_bytes(g->values[i]);
    }
    for (int n = 0; n < g->node_count; n++) {
        now += change[n];
        peak = now > peak ? now : peak;
    }
    free(change);
    free(last);
    free(parent);
    free(outside);
    return peak;
}
