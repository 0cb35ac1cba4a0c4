/* Cross entropy and its gradient as one node of the forward phase, where the loss's gradient is there before the loss:
 *
 *     loss, lse = CrossEntropy(x, target, ..)    dx = CrossEntropyGrad(dloss, x, target, .., lse)
 *         =>    dx, loss = CrossEntropyTrain(dloss, x, target, ..)
 *
 * A row's log sum exp goes no further than the kernel, which reads the row again while it is near, and dx lies where
 * x was. The weights of rows in the mean depend on targets and weights alone, so x is not read again for them. */
#include "graph/passes/fusion/fuse.h"
#include "ops/loss/kernels.h"

#include <string.h>

extern const struct zt_op zt_op_cross_entropy, zt_op_cross_entropy_grad;

static int in_of(const struct zt_node *n, int i) {
    return i < n->in_count ? n->in[i] : -1;
}

/* The value that one is a view of: bytes, type and order are the same. */
static int source_of(const struct zt_graph *g, int value) {
    while (g->values[value]->producer >= 0 && zt_op_is_view(g->nodes[g->values[value]->producer]))
        value = g->nodes[g->values[value]->producer]->in[0];
    return value;
}

static bool same(const struct zt_graph *g, int a, int b) {
    if (a < 0 || b < 0)
        return a == b;
    return source_of(g, a) == source_of(g, b) && zt_shape_equal(&g->values[a]->shape, &g->values[b]->shape) &&
           g->values[a]->dtype == g->values[b]->dtype;
}

static bool told_alike(const struct zt_node *a, const struct zt_node *b) {
    return zt_attr_int(a, "axis", 1) == zt_attr_int(b, "axis", 1) &&
           zt_attr_int(a, "ignore_index", -100) == zt_attr_int(b, "ignore_index", -100) &&
           zt_attr_float(a, "label_smoothing", 0) == zt_attr_float(b, "label_smoothing", 0) &&
           strcmp(zt_attr_text(a, "reduction", "mean"), zt_attr_text(b, "reduction", "mean")) == 0;
}

/* The loss whose gradient the node is, where only that reads its log sum exp; -1: none. */
static int loss_of(const struct zt_graph *g, int node) {
    const struct zt_node *grad = g->nodes[node];
    const int lse = in_of(grad, 5);
    const int from = lse >= 0 ? g->values[lse]->producer : -1;
    const struct zt_node *loss = from >= 0 ? g->nodes[from] : NULL;
    if (!loss || loss->dead || loss->op != &zt_op_cross_entropy || loss->stage != grad->stage || in_of(loss, 0) < 0 ||
        loss->out[0] < 0 || loss->out_count < 2 || loss->out[1] != lse || !zt_fuse_read_only_by(g, lse, &node, 1) ||
        zt_graph_is_output(g, lse))
        return -1;
    bool alike = told_alike(loss, grad);
    for (int i = 0; i < 4; i++)
        alike &= same(g, in_of(loss, i), in_of(grad, i + 1));
    return alike ? from : -1;
}

/* Whether the loss's gradient is what nobody computes: the step's seed, or a constant. */
static bool is_there(const struct zt_graph *g, int dloss, const struct zt_value *loss) {
    const struct zt_value *d = g->values[dloss];
    return d->origin != ZT_FROM_NODE && d->dtype == loss->dtype && zt_shape_equal(&d->shape, &loss->shape);
}

/* Whether the back end's kernel of both takes them. */
static bool takes(const struct zt_graph *g, int loss, int grad, enum zt_backend on) {
    return zt_op_takes(g, grad, on) && zt_op_takes(g, loss, on) &&
           (on != ZT_CPU || zt_class_loss_train_cpu_supports(g, grad));
}

static bool join(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend on,
                 struct zt_err *err) {
    const struct zt_node *grad = g->nodes[node];
    const int from = grad->op == &zt_op_cross_entropy_grad ? loss_of(g, node) : -1;
    if (from < 0 || !is_there(g, grad->in[0], zt_out(g, from, 0)) || !takes(g, from, node, on))
        return false;
    const struct zt_node loss = *g->nodes[from];
    const int in[5] = { grad->in[0], loss.in[0], loss.in[1], in_of(&loss, 2), in_of(&loss, 3) };
    const int out[2] = { grad->out[0], loss.out[0] };
    g->nodes[node]->dead = true;
    return zt_fuse_replace(g, table, from, &(struct zt_fused_node){ "CrossEntropyTrain", in, 5, out, 2, &loss }, err);
}

const struct zt_pattern zt_pattern_cross_entropy = { .name = "cross_entropy",
                                                     .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                     .apply_on = join };
