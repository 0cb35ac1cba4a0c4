#include "graph/passes/fold.h"

#include "graph/ir/op.h"
#include "graph/passes/eval.h"

/* Limit for folding with reference kernels, about a second. Other constant nodes run with the graph. */
static const double FOLD_FLOPS = 1e8;

struct zt_folding zt_folding_begin(size_t node_limit) {
    return (struct zt_folding){ .node_limit = node_limit, .left = 2 * (double)node_limit, .flops_left = FOLD_FLOPS };
}

static bool is_constant(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    if (n->op->flags & ZT_OP_RANDOM)
        return false;
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        const bool contents = !(n->op->flags & ZT_OP_SHAPE_ONLY) && !(i < 32 && n->op->type_in >> i & 1);
        if (v && contents && !zt_value_is_constant(v))
            return false;
    }
    return true;
}

static bool is_within_limits(const struct zt_folding *f, const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    double bytes = 0;
    for (int i = 0; i < n->out_count; i++)
        bytes += (double)zt_value_bytes(zt_out(g, node, i));
    return bytes <= (double)f->node_limit && bytes <= f->left && zt_op_flops(g, node) <= f->flops_left;
}

bool zt_fold_node(struct zt_folding *f, struct zt_graph *g, int n, struct zt_err *err) {
    if (!is_constant(g, n))
        return true;
    if (!zt_folded_alike(&f->folded, g, n)) {
        if (!is_within_limits(f, g, n))
            return true;
        f->flops_left -= zt_op_flops(g, n);
        if (!zt_eval_node(g, n, g->arena, NULL, 1, err))
            return false;
        for (int i = 0; i < g->nodes[n]->out_count; i++)
            f->left -= (double)zt_value_bytes(zt_out(g, n, i));
    }
    for (int i = 0; i < g->nodes[n]->out_count; i++)
        if (zt_out(g, n, i))
            zt_out(g, n, i)->origin = ZT_FROM_CONSTANT;
    g->nodes[n]->dead = true;
    return true;
}

void zt_folding_finish(struct zt_folding *f) {
    zt_folded_finish(&f->folded);
}
