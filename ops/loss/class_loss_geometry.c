/* The losses over class indices, read from the node: shapes, attributes, targets and weights (class_loss.h). */
#include "ops/loss/class_loss.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <string.h>

bool zt_class_loss_reduction(const struct zt_graph *g, int node, enum zt_reduction *to, struct zt_err *err) {
    const char *name = zt_attr_text(g->nodes[node], "reduction", "mean");
    *to = strcmp(name, "none") == 0 ? ZT_LOSS_NONE : strcmp(name, "sum") == 0 ? ZT_LOSS_SUM : ZT_LOSS_MEAN;
    if (*to == ZT_LOSS_MEAN && strcmp(name, "mean") != 0)
        return zt_node_fail(g, node, err, "reduction = \"%s\", allowed none, sum, mean", name);
    return true;
}

bool zt_class_loss_shape(const struct zt_graph *g, int node, int first, struct zt_class_loss *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_attr *ignore = zt_node_attr(n, "ignore_index");
    const struct zt_shape *x = &zt_in(g, node, first)->shape;
    int axis;
    *to = (struct zt_class_loss){ .own = n->domain[0] != 0,
                                  .logs = strncmp(n->op->name, "Negative", 8) == 0,
                                  .ignores = n->domain[0] || ignore,
                                  .ignore = ignore ? ignore->i : -100,
                                  .smoothing = (double)zt_attr_float(n, "label_smoothing", 0) };
    if (!zt_axis(g, node, zt_attr_int(n, "axis", 1), x->rank, &axis, err) ||
        !zt_class_loss_reduction(g, node, &to->reduction, err))
        return false;
    to->rows = zt_axis_slices_along(x, axis);
    to->room = to->rows.length;
    to->rows.length = zt_attr_int(n, "classes", to->room);
    to->count = to->rows.outer * to->rows.inner;
    to->sample = zt_max_int(axis > 0 && x->dim[0] > 0 ? to->count / x->dim[0] : to->count, 1);
    to->each = 1;
    return true;
}

const struct zt_view *zt_class_loss_in(const struct zt_call *call, int i) {
    return i >= 0 && i < call->in_count && call->in[i].data ? &call->in[i] : NULL;
}

static double weight_at(const struct zt_view *weights, int64_t i) {
    return weights ? zt_load_double(weights->dtype, weights->data, i) : 1;
}

double zt_class_loss_weight(const struct zt_class_loss *j, int64_t c) {
    return weight_at(j->class_weight, c);
}

int64_t zt_class_loss_target(const struct zt_class_loss *j, int64_t row) {
    return zt_load_int(j->target->dtype, j->target->data, row);
}

double zt_class_loss_sample(const struct zt_class_loss *j, int64_t row) {
    if (j->ignores && zt_class_loss_target(j, row) == j->ignore)
        return 0;
    return j->row_weight ? weight_at(j->row_weight, row / j->each) : 1;
}

static bool check_targets(const struct zt_call *call, const struct zt_class_loss *j, struct zt_err *err) {
    for (int64_t i = 0; i < j->count; i++) {
        int64_t t = zt_class_loss_target(j, i);
        if ((t < 0 || t >= j->rows.length) && zt_class_loss_sample(j, i) != 0)
            return zt_fail(err, ZT_EXIT_DATA, "%s (%s): row %lld: target %lld is not one of the classes 0..%lld",
                           call->node->name, call->node->op_type, (long long)(i / j->sample), (long long)t,
                           (long long)j->rows.length - 1);
    }
    return true;
}

bool zt_class_loss_read(const struct zt_call *call, int first, struct zt_class_loss *to, struct zt_err *err) {
    if (!zt_class_loss_shape(call->graph, zt_call_node(call), first, to, err))
        return false;
    to->x = &call->in[first];
    to->target = &call->in[first + 1];
    to->row_weight = to->own ? zt_class_loss_in(call, first + 2) : NULL;
    to->class_weight = zt_class_loss_in(call, first + 2 + to->own);
    int64_t weights = to->row_weight ? zt_shape_count(&to->row_weight->shape) : 0;
    if (weights)
        to->each = zt_max_int(to->count / weights, 1);
    for (int64_t c = 0; c < to->rows.length; c++)
        to->weight_sum += zt_class_loss_weight(to, c);
    return check_targets(call, to, err);
}

double zt_class_loss_total(const struct zt_class_loss *j) {
    double total = 0;
    for (int64_t i = 0; j->reduction == ZT_LOSS_MEAN && i < j->count; i++) {
        double sample = zt_class_loss_sample(j, i);
        total += sample != 0 ? sample * zt_class_loss_weight(j, zt_class_loss_target(j, i)) : 0;
    }
    return j->reduction == ZT_LOSS_MEAN ? total : 1;
}

void zt_class_loss_store(const struct zt_call *call, const struct zt_class_loss *j, double sum) {
    double total = zt_class_loss_total(j);
    if (j->reduction != ZT_LOSS_NONE) /* the standard's mean of nothing is 0 / 0 */
        zt_store_double(call->out[0].dtype, call->out[0].data, 0, total == 0 && j->own ? 0 : sum / total);
}

struct zt_class_slope zt_class_loss_slope(const struct zt_call *call, const struct zt_class_loss *j, int64_t row,
                                          double total) {
    double d = zt_load_double(call->in[0].dtype, call->in[0].data, j->reduction == ZT_LOSS_NONE ? row : 0);
    double sample = zt_class_loss_sample(j, row), factor = sample != 0 && total != 0 ? d * sample / total : 0;
    if (factor == 0) /* the target may be none of the classes */
        return (struct zt_class_slope){ 0 };
    return (struct zt_class_slope){
        factor * (1 - j->smoothing) * zt_class_loss_weight(j, zt_class_loss_target(j, row)),
        factor * j->smoothing / (double)j->rows.length,
    };
}
