/* Softmax and losses that the model's graph computes from their parts.
 *
 *     softmax        exp(x - max x) / sum exp(x - max x)
 *     log_softmax    log softmax x, x - log sum exp x, and the latter with the maximum subtracted first
 *     softmax_loss   NegativeLogLikelihoodLoss of a LogSoftmax over the classes: SoftmaxCrossEntropyLoss */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"

#include <string.h>

#define SHIFTED "s = Sub(x, most = ReduceMax(x, ...))"
static const char *const softmax_forms[] = { "Div(e = Exp(" SHIFTED "), sum = ReduceSum(e, ...))", NULL };
static const char *const log_softmax_forms[] = {
    "Log(p = Softmax(x))",
    "Sub(" SHIFTED ", Log(sum = ReduceSum(Exp(s), ...)))",
    "Sub(x, sum = ReduceLogSumExp(x, ...))",
    NULL,
};

/* The one axis that the reduction keeps as 1; -1: several, or it is dropped. */
static int reduced_axis(const struct zt_match *m, const char *name) {
    const struct zt_node *n = zt_match_node(m, name);
    struct zt_err ignored = { 0 };
    bool over[ZT_MAX_RANK];
    int found = -1, count = 0;
    if (!zt_attr_int(n, "keepdims", 1) || !zt_reduce_axes(m->g, n->index, over, &ignored))
        return -1;
    for (int k = 0; k < m->g->values[n->in[0]]->shape.rank; k++) {
        found = over[k] ? k : found;
        count += over[k];
    }
    return count == 1 ? found : -1;
}

/* The axis of a Softmax or LogSoftmax; -1: before opset 13, where slices cover several axes. */
static int softmax_axis(const struct zt_graph *g, int node) {
    struct zt_axis_slices slices;
    struct zt_err ignored = { 0 };
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int axis, flat = g->nodes[node]->opset < 13;
    if (!zt_softmax_read(g, node, &slices, &ignored) ||
        !zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", flat ? 1 : -1), x->rank, &axis, &ignored))
        return -1;
    return slices.length == x->dim[axis] ? axis : -1;
}

static int match_axis(const struct zt_match *m) {
    const struct zt_node *softmax = zt_match_node(m, "p");
    if (softmax)
        return softmax_axis(m->g, softmax->index);
    int axis = reduced_axis(m, "sum");
    return zt_match_value(m, "most") < 0 || reduced_axis(m, "most") == axis ? axis : -1;
}

static bool fuse_slices(struct zt_graph *g, const struct zt_op_table *table, int node, const char *const *forms,
                        const char *op_type, struct zt_err *err) {
    for (; *forms; forms++) {
        struct zt_match m;
        if (!zt_pattern_find(g, node, *forms, &m))
            continue;
        int x = zt_match_value(&m, "x"), axis = match_axis(&m);
        if (axis < 0 || !zt_match_same(&m, x, zt_match_result(&m)))
            continue;
        int made = zt_match_replace(&m, op_type, &x, 1);
        zt_node_set_int(g, made, "axis", axis);
        return zt_match_done(&m, table, made, err);
    }
    return false;
}

static bool fuse_softmax(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    return fuse_slices(g, table, node, softmax_forms, "Softmax", err);
}
static bool fuse_log_softmax(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    return fuse_slices(g, table, node, log_softmax_forms, "LogSoftmax", err);
}

static bool fuse_loss(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    if (!zt_pattern_find(g, node, "NegativeLogLikelihoodLoss(p = LogSoftmax(x), ...)", &m))
        return false;
    const struct zt_node *p = zt_match_node(&m, "p"), nll = *g->nodes[node];
    if (softmax_axis(g, p->index) != 1)
        return false;
    int in[3] = { zt_match_value(&m, "x"), nll.in[1], nll.in_count > 2 ? nll.in[2] : -1 };
    int loss = zt_match_replace(&m, "SoftmaxCrossEntropyLoss", in, in[2] >= 0 ? 3 : 2);
    for (int i = 0; i < nll.attr_count; i++)
        zt_node_set_attr(g, loss, &nll.attr[i]);
    return zt_match_done(&m, table, loss, err);
}

const struct zt_pattern zt_pattern_softmax = { "softmax", ZT_FUSE_FORWARD, fuse_softmax };
const struct zt_pattern zt_pattern_log_softmax = { "log_softmax", ZT_FUSE_FORWARD, fuse_log_softmax };
const struct zt_pattern zt_pattern_softmax_loss = { "softmax_loss", ZT_FUSE_FORWARD, fuse_loss };
