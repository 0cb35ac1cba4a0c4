/* Losses over class indices. With s the weight of a target (its own or its sample's: ops/loss/loss.h), w that of its
 * class (1 where not given), C classes, e = label_smoothing, and logp = x - log sum exp x (x itself in NLL):
 *
 *     loss_i = s_i ((1 - e) w_t (-logp_t) + e / C sum over c of w_c (-logp_c))
 *     mean   = sum of loss_i / sum of s_i w_t, where targets that are ignore_index count nowhere
 *     dx_c   = dloss s_i / total ((1 - e) w_t (p_c - [c = t]) + e / C (p_c sum of w - w_c))
 *
 * ztrain.CrossEntropy(logits, target[, row weight[, class weight]]) -> loss, log sum exp of every row; PyTorch's
 * cross_entropy. The loss of logits in half precision is fp32. Its gradient makes p from the logits and the row's log
 * sum exp, so that nothing of the logits' size is kept twice. ztrain.NegativeLogLikelihood takes log p for x. Where all
 * rows weigh nothing, loss and gradient are 0.
 *
 * ONNX SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss (opset 12 on) are the same with reductions, classes on
 * axis 1, and class weights as their third input; there no ignore_index means that none is ignored. */
#include "ops/loss/class_loss.h"
#include "ops/loss/kernels.h"

#include "ops/loss/launch_class_loss.h"
#include "ops/cuda/launch.h"
#include "ops/loss/loss.h"

#include <string.h>

static const struct zt_attr_spec own_attrs[] = { { "axis", ZT_ATTR_INT },
                                                 { "ignore_index", ZT_ATTR_INT },
                                                 { "label_smoothing", ZT_ATTR_FLOAT },
                                                 { "reduction", ZT_ATTR_STRING },
                                                 { 0 } };
static const struct zt_attr_spec train_attrs[] = {
    { "axis", ZT_ATTR_INT },         { "classes", ZT_ATTR_INT },
    { "ignore_index", ZT_ATTR_INT }, { "label_smoothing", ZT_ATTR_FLOAT },
    { "reduction", ZT_ATTR_STRING }, { 0 }
};
static const struct zt_attr_spec standard_attrs[] = { { "ignore_index", ZT_ATTR_INT },
                                                      { "reduction", ZT_ATTR_STRING },
                                                      { 0 } };

/* ---- shape rules ---- */

/* The axis of the classes; the target has the shape of x without it. */
static bool read_axis(const struct zt_graph *g, int node, const struct zt_value *x, const struct zt_value *target,
                      int *axis, struct zt_err *err) {
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->shape.rank, axis, err))
        return false;
    struct zt_shape want = { .rank = x->shape.rank - 1 };
    for (int k = 0; k < want.rank; k++)
        want.dim[k] = x->shape.dim[k + (k >= *axis)];
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT], u[ZT_SHAPE_TEXT];
    if (zt_shape_equal(&want, &target->shape))
        return true;
    return zt_node_fail(g, node, err, "target \"%s\" has shape %s, wants %s for %s with classes on axis %d",
                        target->name, zt_shape_text(&target->shape, s), zt_shape_text(&want, t),
                        zt_shape_text(&x->shape, u), *axis);
}

static bool check_class_weight(const struct zt_graph *g, int node, const struct zt_value *weight, int64_t classes,
                               struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    if (!weight || zt_shape_count(&weight->shape) == classes)
        return true;
    return zt_node_fail(g, node, err, "weight \"%s\" has shape %s, wants one for each of the %lld classes",
                        weight->name, zt_shape_text(&weight->shape, text), (long long)classes);
}

/* x at input `first`, the target behind it, then the weights; `rows` false: no row weight stands between. */
static bool check(const struct zt_graph *g, int node, int first, bool rows, int *axis, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, first);
    int weights = first + 2;
    const struct zt_value *target = zt_in(g, node, first + 1);
    return read_axis(g, node, x, target, axis, err) &&
           (!rows || zt_loss_weight_fits(g, node, zt_in(g, node, weights), &target->shape, err)) &&
           check_class_weight(g, node, zt_in(g, node, weights + rows),
                              zt_attr_int(g->nodes[node], "classes", x->shape.dim[*axis]), err);
}

static enum zt_dtype saved_type(enum zt_dtype x) {
    return x == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT;
}

static bool set_loss(struct zt_graph *g, int node, enum zt_dtype dtype, struct zt_err *err) {
    enum zt_reduction reduction;
    if (!zt_class_loss_reduction(g, node, &reduction, err))
        return false;
    const struct zt_shape scalar = { 0 };
    zt_set_out(g, node, 0, dtype, reduction == ZT_LOSS_NONE ? &zt_in(g, node, 1)->shape : &scalar);
    return true;
}

static bool own_infer(struct zt_graph *g, int node, struct zt_err *err) {
    int axis;
    const enum zt_dtype saved = saved_type(zt_in(g, node, 0)->dtype);
    if (!check(g, node, 0, true, &axis, err) || !set_loss(g, node, saved, err))
        return false;
    zt_set_out(g, node, 1, saved, &zt_in(g, node, 1)->shape);
    return true;
}

static bool standard_infer(struct zt_graph *g, int node, struct zt_err *err) {
    int axis;
    if (!check(g, node, 0, false, &axis, err) || !set_loss(g, node, zt_in(g, node, 0)->dtype, err))
        return false;
    zt_set_out(g, node, 1, zt_in(g, node, 0)->dtype, &zt_in(g, node, 0)->shape);
    return true;
}

/* (dloss, x, target, row weight, class weight[, log sum exp]) */
static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    int axis;
    enum zt_reduction reduction;
    if (!zt_class_loss_reduction(g, node, &reduction, err))
        return false;
    int64_t rows = zt_shape_count(&zt_in(g, node, 2)->shape), losses = zt_shape_count(&zt_in(g, node, 0)->shape);
    const struct zt_value *lse = zt_in(g, node, 5);
    if (losses != (reduction == ZT_LOSS_NONE ? rows : 1) || (lse && zt_shape_count(&lse->shape) != rows))
        return zt_node_fail(g, node, err, "has the gradients of %lld losses for %lld targets", (long long)losses,
                            (long long)rows);
    if (!check(g, node, 1, true, &axis, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 1)->dtype, &zt_in(g, node, 1)->shape);
    return true;
}

/* (dloss, x, target, row weight, class weight) -> dx, loss: it is as its gradient is. Where there are fewer `classes`
 * than the last axis is long, what stands behind them counts nothing, and its gradient is 0. */
static bool train_infer(struct zt_graph *g, int node, struct zt_err *err) {
    if (!grad_infer(g, node, err))
        return false;
    const struct zt_shape *x = &zt_in(g, node, 1)->shape;
    const int64_t last = x->dim[x->rank - 1], classes = zt_attr_int(g->nodes[node], "classes", -1);
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->rank, &axis, err))
        return false;
    if (zt_node_attr(g->nodes[node], "classes") && (axis != x->rank - 1 || classes < 0 || classes > last))
        return zt_node_fail(g, node, err, "classes %lld on axis %d, wants at most %lld on the last one",
                            (long long)classes, axis, (long long)last);
    zt_set_out(g, node, 1, zt_in(g, node, 0)->dtype, &zt_in(g, node, 0)->shape);
    return true;
}

/* ---- gradient rules ---- */

static int in_of(const struct zt_node *n, int i) {
    return i < n->in_count ? n->in[i] : -1;
}

/* dx through the loss; lse -1: NLL. */
static void emit_grad(struct zt_grad *b, int node, int row_weight, int class_weight, int lse) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_attr *ignore = zt_node_attr(n, "ignore_index");
    /* the own row ignores -100 unless told otherwise: a standard node without the attribute ignores what cannot be a
     * target */
    struct zt_attr none = { .name = "ignore_index", .type = ZT_ATTR_INT, .i = n->domain[0] ? -100 : INT64_MIN };
    int in[6] = { zt_grad_out(b, node, 0), n->in[0], n->in[1], row_weight, class_weight, lse }, out;
    if (in[0] < 0)
        return;
    zt_emit_node(b,
                 &(struct zt_emission){ lse >= 0 ? "CrossEntropyGrad" : "NegativeLogLikelihoodGrad", "ztrain", in,
                                        lse >= 0 ? 6 : 5, n, &none, ignore ? 0 : 1 },
                 &out, 1);
    zt_grad_give(b, node, 0, out);
}

/* The log sum exp of every row of a node that did not keep it. */
static int emit_log_sum_exp(struct zt_grad *b, int node) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    struct zt_attr keep = { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 };
    const int64_t axis = zt_attr_int(n, "axis", 1);
    int in[2] = { n->in[0], zt_emit_ints(b, &axis, 1) }, out;
    return zt_emit_node(b, &(struct zt_emission){ "ReduceLogSumExp", "", in, 2, NULL, &keep, 1 }, &out, 1) ? out : -1;
}

static bool cross_entropy_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int lse = n->out_count > 1 && n->out[1] >= 0 ? n->out[1] : emit_log_sum_exp(b, node);
    if (lse >= 0)
        emit_grad(b, node, in_of(n, 2), in_of(n, 3), lse);
    return true;
}

static bool likelihood_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    emit_grad(b, node, in_of(n, 2), in_of(n, 3), -1);
    return true;
}

static bool standard_likelihood_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    emit_grad(b, node, -1, in_of(zt_grad_graph(b)->nodes[node], 2), -1);
    return true;
}

/* The standard's node keeps log p, if anything, whose gradient is LogSoftmax's. */
static bool standard_cross_entropy_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int lse = emit_log_sum_exp(b, node), log_p = zt_grad_out(b, node, 1);
    if (lse >= 0)
        emit_grad(b, node, -1, in_of(n, 2), lse);
    if (log_p >= 0) {
        struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = 1 };
        int pair[2] = { log_p, n->out[1] }, out;
        zt_emit_node(b, &(struct zt_emission){ "LogSoftmaxGrad", "ztrain", pair, 2, NULL, &axis, 1 }, &out, 1);
        zt_grad_give(b, node, 0, out);
    }
    return true;
}

/* ---- what other back ends are told: a struct zt_launch_loss without addresses ---- */

static enum zt_dtype dtype_of(const struct zt_graph *g, int node, int in) {
    return zt_in(g, node, in) ? zt_in(g, node, in)->dtype : ZT_FLOAT;
}

static bool describe(const struct zt_graph *g, int node, int first, struct zt_launch_loss *to, struct zt_err *err) {
    struct zt_class_loss j;
    if (!zt_class_loss_shape(g, node, first, &j, err))
        return false;
    const struct zt_value *rows = j.own ? zt_in(g, node, first + 2) : NULL;
    *to = (struct zt_launch_loss){ .dtype = dtype_of(g, node, first),
                                   .loss_dtype = first == 0 ? zt_out(g, node, 0)->dtype : dtype_of(g, node, 0),
                                   .target_dtype = dtype_of(g, node, first + 1),
                                   .row_dtype = dtype_of(g, node, first + 2),
                                   .class_dtype = dtype_of(g, node, first + 2 + j.own),
                                   .outer = j.rows.outer,
                                   .classes = j.rows.length,
                                   .inner = j.rows.inner,
                                   .room = j.room,
                                   .samples = rows ? zt_shape_count(&rows->shape) : 1,
                                   .ignore = j.ignores ? j.ignore : INT64_MIN,
                                   .smoothing = (float)j.smoothing,
                                   .mean = j.reduction == ZT_LOSS_MEAN,
                                   .none = j.reduction == ZT_LOSS_NONE,
                                   .logs = j.logs,
                                   .own = j.own };
    return true;
}

static bool loss_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe(g, node, 0, to, err);
}

static bool grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe(g, node, 1, to, err);
}
#define LOSS_CUDA         ZT_CUDA_AS(class_loss, zt_loss_takes_cuda, loss_describe)
#define GRAD_CUDA(kernel) ZT_CUDA_AS(kernel, zt_loss_takes_cuda, grad_describe)

/* ---- rows ---- */

#define OWN_ROW                                                                                                        \
    .domain = "ztrain", .since = 1, .min_in = 2, .max_in = 4, .min_out = 1,                                            \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .no_grad_in = 0xe, .attrs = own_attrs,       \
    .infer = own_infer
/* dx may lie on x, input 1. */
#define GRADS_ROW                                                                                                      \
    .domain = "ztrain", .since = 1, .min_in = 3, .in_place = 1,                                                        \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }
#define GRAD_ROW                                                                                                       \
    GRADS_ROW, .flags = ZT_OP_IN_PLACE | ZT_OP_PASSES_HALF, .full_in = ~2U, .attrs = own_attrs, .max_in = 6,           \
               .min_out = 1, .max_out = 1, .infer = grad_infer
#define STANDARD_ROW                                                                                                   \
    .domain = "", .since = 12, .min_in = 2, .max_in = 3, .min_out = 1,                                                 \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT }, .no_grad_in = 6, .attrs = standard_attrs,                  \
    .infer = standard_infer

const struct zt_op zt_op_cross_entropy = {
    .name = "CrossEntropy",
    OWN_ROW,
    .flags = ZT_OP_PASSES_HALF,
    .full_in = ~1U,
    .full_out = ~0U,
    .max_out = 2,
    .grad = cross_entropy_grad,
    .kernel = { [ZT_REF] = { .run = zt_class_loss_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_class_loss_cpu),
                [ZT_CUDA] = LOSS_CUDA },
};
const struct zt_op zt_op_negative_log_likelihood = {
    .name = "NegativeLogLikelihood",
    OWN_ROW,
    .max_out = 2,
    .grad = likelihood_grad,
    .kernel = { [ZT_REF] = { .run = zt_class_loss_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_class_loss_cpu),
                [ZT_CUDA] = LOSS_CUDA },
};
/* (dloss, logits, target, row weight, class weight, log sum exp) -> dlogits; the weights may be omitted */
const struct zt_op zt_op_cross_entropy_grad = {
    .name = "CrossEntropyGrad",
    GRAD_ROW,
    .body = zt_cross_entropy_grad_function_body,
    .kernel = { [ZT_REF] = { .run = zt_class_loss_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_class_loss_grad_cpu),
                [ZT_CUDA] = GRAD_CUDA(class_loss_grad) },
};
/* (dloss, logits, target[, row weight[, class weight]]) -> dlogits, loss: both of ours at once (fuse_cross_entropy.c)
 */
const struct zt_op zt_op_cross_entropy_train = {
    .name = "CrossEntropyTrain",
    GRADS_ROW,
    .flags = ZT_OP_IN_PLACE | ZT_OP_NO_RECOMPUTE,
    .attrs = train_attrs,
    .max_in = 5,
    .min_out = 2,
    .max_out = 2,
    .infer = train_infer,
    .kernel = { [ZT_REF] = { .run = zt_class_loss_train_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_class_loss_train_cpu),
                [ZT_CUDA] = GRAD_CUDA(class_loss_train) },
};
/* (dloss, log p, target, row weight, class weight) -> dlog p */
const struct zt_op zt_op_negative_log_likelihood_grad = {
    .name = "NegativeLogLikelihoodGrad",
    GRAD_ROW,
    .body = zt_negative_log_likelihood_grad_function_body,
    .kernel = { [ZT_REF] = { .run = zt_class_loss_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_class_loss_grad_cpu),
                [ZT_CUDA] = GRAD_CUDA(class_loss_grad) },
};
const struct zt_op zt_op_softmax_cross_entropy_loss = {
    .name = "SoftmaxCrossEntropyLoss",
    STANDARD_ROW,
    .max_out = 2,
    .grad = standard_cross_entropy_grad,
    .kernel = { [ZT_REF] = { .run = zt_class_loss_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_class_loss_cpu),
                [ZT_CUDA] = LOSS_CUDA },
};
const struct zt_op zt_op_negative_log_likelihood_loss = {
    .name = "NegativeLogLikelihoodLoss",
    STANDARD_ROW,
    .max_out = 1,
    .grad = standard_likelihood_grad,
    .kernel = { [ZT_REF] = { .run = zt_class_loss_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_class_loss_cpu),
                [ZT_CUDA] = LOSS_CUDA },
};
