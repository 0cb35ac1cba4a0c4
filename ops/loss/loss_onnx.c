/* ONNX function bodies of the gradients of class losses (formulas in class_loss.c).
 * Shapes: logits [outer, classes, inner], one number a row [outer, 1, inner]. */
#include "ops/kernel/axis_slices.h"
#include "ops/loss/kernels.h"

#include <string.h>

static bool read_classes(const struct zt_graph *g, int node, struct zt_axis_slices *rows, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 1)->shape;
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->rank, &axis, err))
        return false;
    *rows = zt_axis_slices_along(x, axis);
    return true;
}

/* sample: the weight of each row: its own or its sample's (ops/loss/loss.h) */
static void say_samples(struct zt_function_body *b, const struct zt_axis_slices *l) {
    const struct zt_value *weight = zt_in(b->g, b->node, 3);
    int64_t weights = weight ? zt_shape_count(&weight->shape) : 0, count = l->outer * l->inner;
    zt_function_body_add(b, "sample = 1");
    if (weights > 0)
        zt_function_body_add(b, "sample = Reshape(Expand(Reshape(sample_weight, [%lld, 1]), [%lld, %lld]), each)",
                             (long long)weights, (long long)weights, (long long)(count / weights));
}

/* hot: 1 at a row's target; weight: of its target's class; counted: whether it is; factor: what dloss is to it */
static void say_targets(struct zt_function_body *b, const struct zt_axis_slices *l) {
    const struct zt_node *n = b->g->nodes[b->node];
    struct zt_shape classes = { 3, { 1, l->length, 1 } };
    int64_t *number = ZT_NEW_N(b->arena, int64_t, l->length);
    for (int64_t c = 0; c < l->length; c++)
        number[c] = c;
    zt_function_body_int64s(b, "number", &classes, number);
    zt_function_body_add(b, "each = [%lld, 1, %lld]; target = Reshape(Cast<to=int64>(target), each)",
                         (long long)l->outer, (long long)l->inner);
    say_samples(b, l);
    zt_function_body_int64s(b, "ignored", &(struct zt_shape){ 0 },
                            (const int64_t[]){ zt_attr_int(n, "ignore_index", -100) });
    zt_function_body_add(b, "class = Expand(1, [1, %lld, 1])", (long long)l->length);
    if (zt_in(b->g, b->node, 4))
        zt_function_body_add(b, "class = Reshape(class_weight, [1, %lld, 1])", (long long)l->length);
    zt_function_body_add(b, "hot = Cast<to=T>(Equal(target, number)); weight = ReduceSum(hot * class, [1])");
    zt_function_body_add(b, "counted = And(Not(Equal(target, ignored)), Not(Equal(sample, 0)))");
    bool none = strcmp(zt_attr_text(n, "reduction", "mean"), "none") == 0;
    zt_function_body_add(b, "factor = sample * Reshape(dloss, %s)", none ? "each" : "[1, 1, 1]");
    if (strcmp(zt_attr_text(n, "reduction", "mean"), "mean") == 0)
        zt_function_body_add(b,
                             "total = ReduceSum(Where(counted, sample * weight, 0));"
                             "factor = Where(Equal(total, 0), 0, factor / total)");
}

/* slope: of the loss of a row by its log p, where p is a name, and by -p's normalisation */
static bool say_loss(struct zt_function_body *b, bool softmax, struct zt_err *err) {
    struct zt_axis_slices rows;
    if (!read_classes(b->g, b->node, &rows, err))
        return false;
    zt_function_body_names(b, "dloss, x, target, sample_weight, class_weight, log_sum -> dx");
    zt_function_body_number(b, "smooth", (double)zt_attr_float(b->g->nodes[b->node], "label_smoothing", 0));
    say_targets(b, &rows);
    zt_function_body_add(b, "slope = -(1 - smooth) * weight * hot - smooth / %lld * class", (long long)rows.length);
    if (softmax)
        zt_function_body_add(
            b, "p = Exp(Reshape(x, %s) - Reshape(log_sum, each)); slope = slope - p * ReduceSum(slope, [1])",
            zt_body_slices(b, &rows));
    zt_function_body_add(b, "dx = Reshape(Where(counted, factor * slope, 0), %s)", zt_body_out(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_cross_entropy_grad_function_body) {
    (void)g, (void)node;
    return say_loss(b, true, err);
}

ZT_FUNCTION_BODY(zt_negative_log_likelihood_grad_function_body) {
    (void)g, (void)node;
    return say_loss(b, false, err);
}
