/* Losses over class indices. With s the weight of a target's sample, w that of its class (1 where not given), C
 * classes, e = label_smoothing, and logp = x - log sum exp x (x itself in NLL):
 *
 *     loss_i = s_i ((1 - e) w_t (-logp_t) + e / C sum over c of w_c (-logp_c))
 *     mean   = sum of loss_i / sum of s_i w_t, where targets that are ignore_index count nowhere
 *     dx_c   = dloss s_i / total ((1 - e) w_t (p_c - [c = t]) + e / C (p_c sum of w - w_c))
 *
 * ztrain.CrossEntropy(logits, target[, row weight[, class weight]]) -> loss, log sum exp of every line; PyTorch's
 * cross_entropy. Its gradient makes p from the logits and the line's log sum exp, so that nothing of the logits' size
 * is kept twice. ztrain.NegativeLogLikelihood takes log p for x. Where all rows weigh nothing, loss and gradient are 0.
 *
 * ONNX SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss (opset 12 on) are the same with reductions, classes on
 * axis 1, and class weights as their third input; there no ignore_index means that none is ignored. */
#include "ops/cuda.h"
#include "ops/lines.h"
#include "ops/runs.h"
#include "ops/tile.h"

#include <math.h>
#include <string.h>

static const struct zt_attr_spec own_attrs[] = { { "axis", ZT_ATTR_INT },
                                                 { "ignore_index", ZT_ATTR_INT },
                                                 { "label_smoothing", ZT_ATTR_FLOAT },
                                                 { "reduction", ZT_ATTR_STRING },
                                                 { 0 } };
static const struct zt_attr_spec standard_attrs[] = { { "ignore_index", ZT_ATTR_INT },
                                                      { "reduction", ZT_ATTR_STRING },
                                                      { 0 } };

enum reduction { MEAN, SUM, NONE };

/* A loss or its gradient. Inputs stand in one order behind `first`: x, target, row weight, class weight. */
struct job {
    struct zt_lines lines;
    int64_t count, samples; /* lines; lines of sample n are n * count / samples on */
    enum reduction reduction;
    bool ignores;
    int64_t ignore;
    double smoothing, weight_sum; /* weight_sum: of the classes */
    const struct zt_view *x, *target, *row_weight, *class_weight;
};

/* ---- shape rules ---- */

static bool read_reduction(const struct zt_graph *g, int node, enum reduction *to, struct zt_err *err) {
    const char *name = zt_attr_text(&g->nodes[node], "reduction", "mean");
    *to = strcmp(name, "none") == 0 ? NONE : strcmp(name, "sum") == 0 ? SUM : MEAN;
    if (*to == MEAN && strcmp(name, "mean") != 0)
        return zt_node_fail(g, node, err, "reduction = \"%s\", allowed none, sum, mean", name);
    return true;
}

/* The axis of the classes; the target has the shape of x without it. */
static bool read_axis(const struct zt_graph *g, int node, const struct zt_value *x, const struct zt_value *target,
                      int *axis, struct zt_err *err) {
    if (!zt_axis(g, node, zt_attr_int(&g->nodes[node], "axis", 1), x->shape.rank, axis, err))
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

static bool check_weight(const struct zt_graph *g, int node, const struct zt_value *weight, int64_t count,
                         const char *what, struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    if (!weight || zt_shape_count(&weight->shape) == count)
        return true;
    return zt_node_fail(g, node, err, "weight \"%s\" has shape %s, wants one for each of the %lld %s", weight->name,
                        zt_shape_text(&weight->shape, text), (long long)count, what);
}

/* x at input `first`, the target behind it, then the weights; `rows` false: no row weight stands between. */
static bool check(const struct zt_graph *g, int node, int first, bool rows, int *axis, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, first);
    int weights = first + 2;
    return read_axis(g, node, x, zt_in(g, node, first + 1), axis, err) &&
           (!rows || check_weight(g, node, zt_in(g, node, weights), x->shape.dim[0], "samples", err)) &&
           check_weight(g, node, zt_in(g, node, weights + rows), x->shape.dim[*axis], "classes", err);
}

static enum zt_dtype kept_type(enum zt_dtype x) {
    return x == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT;
}

static bool set_loss(struct zt_graph *g, int node, struct zt_err *err) {
    enum reduction reduction;
    if (!read_reduction(g, node, &reduction, err))
        return false;
    const struct zt_shape scalar = { 0 };
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, reduction == NONE ? &zt_in(g, node, 1)->shape : &scalar);
    return true;
}

static bool own_infer(struct zt_graph *g, int node, struct zt_err *err) {
    int axis;
    if (!check(g, node, 0, true, &axis, err) || !set_loss(g, node, err))
        return false;
    zt_set_out(g, node, 1, kept_type(zt_in(g, node, 0)->dtype), &zt_in(g, node, 1)->shape);
    return true;
}

static bool standard_infer(struct zt_graph *g, int node, struct zt_err *err) {
    int axis;
    if (!check(g, node, 0, false, &axis, err) || !set_loss(g, node, err))
        return false;
    zt_set_out(g, node, 1, zt_in(g, node, 0)->dtype, &zt_in(g, node, 0)->shape);
    return true;
}

/* (dloss, x, target, row weight, class weight[, log sum exp]) */
static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    int axis;
    enum reduction reduction;
    if (!read_reduction(g, node, &reduction, err))
        return false;
    int64_t lines = zt_shape_count(&zt_in(g, node, 2)->shape), losses = zt_shape_count(&zt_in(g, node, 0)->shape);
    const struct zt_value *lse = zt_in(g, node, 5);
    if (losses != (reduction == NONE ? lines : 1) || (lse && zt_shape_count(&lse->shape) != lines))
        return zt_node_fail(g, node, err, "has the gradients of %lld losses for %lld targets", (long long)losses,
                            (long long)lines);
    if (!check(g, node, 1, true, &axis, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 1)->dtype, &zt_in(g, node, 1)->shape);
    return true;
}

/* ---- kernels ---- */

static const struct zt_view *view(const struct zt_call *call, int i) {
    return i >= 0 && i < call->in_count && call->in[i].data ? &call->in[i] : NULL;
}

static double weight_at(const struct zt_view *weights, int64_t i) {
    return weights ? zt_load_double(weights->dtype, weights->data, i) : 1;
}

static double sample_weight(const struct job *j, int64_t line) {
    return j->row_weight ? weight_at(j->row_weight, line / zt_max_int(j->count / j->samples, 1)) : 1;
}

static int64_t target_of(const struct job *j, int64_t line) {
    return zt_load_int(j->target->dtype, j->target->data, line);
}

static bool counted(const struct job *j, int64_t line) {
    return !(j->ignores && target_of(j, line) == j->ignore) && sample_weight(j, line) != 0;
}

static bool check_targets(const struct zt_call *call, const struct job *j, struct zt_err *err) {
    for (int64_t i = 0; i < j->count; i++) {
        int64_t t = target_of(j, i);
        if ((t < 0 || t >= j->lines.length) && counted(j, i))
            return zt_fail(err, ZT_EXIT_DATA, "%s (%s): row %lld: target %lld is not one of the classes 0..%lld",
                           call->node->name, call->node->op_type, (long long)(i / zt_max_int(j->count / j->samples, 1)),
                           (long long)t, (long long)j->lines.length - 1);
    }
    return true;
}

static bool read_job(const struct zt_call *call, int first, bool own, struct job *j, struct zt_err *err) {
    const struct zt_node *n = call->node;
    const struct zt_attr *ignore = zt_node_attr(n, "ignore_index");
    int axis;
    *j = (struct job){ .x = &call->in[first],
                       .target = &call->in[first + 1],
                       .row_weight = own ? view(call, first + 2) : NULL,
                       .class_weight = view(call, first + 2 + own),
                       .ignores = own || ignore,
                       .ignore = ignore ? ignore->i : -100,
                       .smoothing = (double)zt_attr_float(n, "label_smoothing", 0) };
    if (!zt_axis(call->graph, zt_call_node(call), zt_attr_int(n, "axis", 1), j->x->shape.rank, &axis, err) ||
        !read_reduction(call->graph, zt_call_node(call), &j->reduction, err))
        return false;
    j->lines = zt_lines_along(&j->x->shape, axis);
    j->count = j->lines.outer * j->lines.inner;
    j->samples = axis > 0 ? zt_max_int(j->x->shape.dim[0], 1) : 1;
    for (int64_t c = 0; c < j->lines.length; c++)
        j->weight_sum += weight_at(j->class_weight, c);
    return check_targets(call, j, err);
}

static struct zt_line line_of(const struct job *j, const struct zt_view *of, int64_t line) {
    return (struct zt_line){ of, zt_lines_start(&j->lines, line), j->lines.inner, j->lines.length };
}

static double total_weight(const struct job *j) {
    double total = 0;
    for (int64_t i = 0; i < j->count; i++)
        if (counted(j, i))
            total += sample_weight(j, i) * weight_at(j->class_weight, target_of(j, i));
    return total;
}

static double log_sum_exp(const struct zt_line *l) {
    int64_t place;
    double max = zt_line_max(l, &place);
    return max + log(zt_line_sum_exp(l, max));
}

/* loss_i without s; lse is 0 where x is log p already. */
static double line_loss(const struct job *j, int64_t line, double lse) {
    struct zt_line l = line_of(j, j->x, line);
    int64_t t = target_of(j, line);
    double loss = (1 - j->smoothing) * weight_at(j->class_weight, t) *
                  (lse - zt_load_double(j->x->dtype, j->x->data, l.start + t * l.stride));
    if (j->smoothing == 0)
        return loss;
    double run[ZT_RUN], spread = 0;
    ZT_EACH_RUN(l.length, at, count) {
        zt_line_load(&l, at, count, run);
        for (int64_t i = 0; i < count; i++)
            spread += weight_at(j->class_weight, at + i) * (lse - run[i]);
    }
    return loss + j->smoothing / (double)l.length * spread;
}

/* What a line leaves in the second output: its log sum exp (own form) or its log p (the standard's). */
static void keep_line(const struct job *j, const struct zt_view *to, bool own, int64_t line, double lse) {
    double run[ZT_RUN];
    if (own) {
        zt_store_double(to->dtype, to->data, line, lse);
        return;
    }
    struct zt_line from = line_of(j, j->x, line), out = line_of(j, to, line);
    ZT_EACH_RUN(from.length, at, count) {
        zt_line_load(&from, at, count, run);
        for (int64_t i = 0; i < count; i++)
            run[i] -= lse;
        zt_line_store(&out, at, count, run);
    }
}

enum { CHUNKS = 64 }; /* lines are summed in so many chunks and these in order: the bits do not depend on threads */

static double chunk_loss(const struct zt_call *call, const struct job *j, bool own, bool logs, int64_t from,
                         int64_t end) {
    const struct zt_view *kept = call->out_count > 1 && call->out[1].data ? &call->out[1] : NULL;
    double sum = 0;
    for (int64_t i = from; i < end; i++) {
        struct zt_line l = line_of(j, j->x, i);
        double lse = logs ? 0 : log_sum_exp(&l), loss = counted(j, i) ? sample_weight(j, i) * line_loss(j, i, lse) : 0;
        if (kept)
            keep_line(j, kept, own, i, lse);
        if (j->reduction == NONE)
            zt_store_double(call->out[0].dtype, call->out[0].data, i, loss);
        sum += loss;
    }
    return sum;
}

static double work_of(const struct job *j) {
    return 16.0 * (double)j->count * (double)j->lines.length;
}

static bool run_loss(const struct zt_call *call, bool own, bool logs, struct zt_err *err) {
    struct job j;
    if (!read_job(call, 0, own, &j, err))
        return false;
    double part[CHUNKS] = { 0 }, sum = 0;
#pragma omp parallel for num_threads(zt_threads_worth(call->threads, work_of(&j))) schedule(static)
    for (int c = 0; c < CHUNKS; c++)
        part[c] = chunk_loss(call, &j, own, logs, j.count * c / CHUNKS, j.count * (c + 1) / CHUNKS);
    for (int c = 0; c < CHUNKS; c++)
        sum += part[c];
    double total = j.reduction == MEAN ? total_weight(&j) : 1;
    if (j.reduction != NONE) /* the standard's mean of nothing is 0 / 0 */
        zt_store_double(call->out[0].dtype, call->out[0].data, 0, total == 0 && own ? 0 : sum / total);
    return true;
}

static void grad_line(const struct job *j, const struct zt_view *out, int64_t line, double factor, const double *lse) {
    struct zt_line from = line_of(j, j->x, line), to = line_of(j, out, line);
    int64_t t = target_of(j, line);
    double run[ZT_RUN], hit = 0, spread = factor * j->smoothing / (double)from.length;
    if (factor != 0)
        hit = factor * (1 - j->smoothing) * weight_at(j->class_weight, t);
    double sum = hit + spread * j->weight_sum; /* what p_c is multiplied with */
    ZT_EACH_RUN(from.length, at, count) {
        if (lse && factor != 0)
            zt_line_load(&from, at, count, run);
        for (int64_t i = 0; i < count; i++) {
            run[i] = lse && factor != 0 ? sum * exp(run[i] - *lse) : 0;
            run[i] -= spread != 0 ? spread * weight_at(j->class_weight, at + i) : 0;
            run[i] -= at + i == t ? hit : 0;
        }
        zt_line_store(&to, at, count, run);
    }
}

/* With the log sum exp the gradient of cross-entropy, without that of NLL. */
static bool run_grad(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!read_job(call, 1, true, &j, err))
        return false;
    const struct zt_view *dloss = &call->in[0], *kept = view(call, 5);
    double total = j.reduction == MEAN ? total_weight(&j) : 1;
#pragma omp parallel for num_threads(zt_threads_worth(call->threads, work_of(&j))) schedule(static)
    for (int64_t i = 0; i < j.count; i++) {
        double d = zt_load_double(dloss->dtype, dloss->data, j.reduction == NONE ? i : 0);
        double lse = kept ? zt_load_double(kept->dtype, kept->data, i) : 0;
        double factor = counted(&j, i) && total != 0 ? d * sample_weight(&j, i) / total : 0;
        grad_line(&j, &call->out[0], i, factor, kept ? &lse : NULL);
    }
    return true;
}

#define RUN(name, ...)                                                                                                 \
    static bool name(const struct zt_call *call, struct zt_err *err) {                                                 \
        return __VA_ARGS__;                                                                                            \
    }
RUN(cross_entropy_ref, run_loss(call, true, false, err))
RUN(likelihood_ref, run_loss(call, true, true, err))
RUN(standard_cross_entropy_ref, run_loss(call, false, false, err))
RUN(standard_likelihood_ref, run_loss(call, false, true, err))
RUN(grad_ref, run_grad(call, err))

/* ---- gradient rules ---- */

static int in_of(const struct zt_node *n, int i) {
    return i < n->in_count ? n->in[i] : -1;
}

/* dx through the loss; lse -1: NLL. */
static void emit_grad(struct zt_grad *b, int node, int row_weight, int class_weight, int lse) {
    const struct zt_node n = zt_grad_graph(b)->nodes[node];
    const struct zt_attr *ignore = zt_node_attr(&n, "ignore_index");
    /* the own row ignores -100 unless told otherwise: a standard node without the attribute ignores what cannot be a
     * target */
    struct zt_attr none = { .name = "ignore_index", .type = ZT_ATTR_INT, .i = n.domain[0] ? -100 : INT64_MIN };
    int in[6] = { zt_grad_out(b, node, 0), n.in[0], n.in[1], row_weight, class_weight, lse }, out;
    if (in[0] < 0)
        return;
    zt_emit_node(b, lse >= 0 ? "CrossEntropyGrad" : "NegativeLogLikelihoodGrad", "ztrain", in, lse >= 0 ? 6 : 5, &n,
                 &none, ignore ? 0 : 1, &out, 1);
    zt_grad_give(b, node, 0, out);
}

/* The log sum exp of every line of a node that did not keep it. */
static int emit_log_sum_exp(struct zt_grad *b, int node) {
    const struct zt_node n = zt_grad_graph(b)->nodes[node];
    struct zt_attr keep = { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 };
    const int64_t axis = zt_attr_int(&n, "axis", 1);
    int in[2] = { n.in[0], zt_emit_ints(b, &axis, 1) }, out;
    return zt_emit_node(b, "ReduceLogSumExp", "", in, 2, NULL, &keep, 1, &out, 1) ? out : -1;
}

static bool cross_entropy_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node n = zt_grad_graph(b)->nodes[node];
    int lse = n.out_count > 1 && n.out[1] >= 0 ? n.out[1] : emit_log_sum_exp(b, node);
    if (lse >= 0)
        emit_grad(b, node, in_of(&n, 2), in_of(&n, 3), lse);
    return true;
}

static bool likelihood_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = &zt_grad_graph(b)->nodes[node];
    emit_grad(b, node, in_of(n, 2), in_of(n, 3), -1);
    return true;
}

static bool standard_likelihood_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    emit_grad(b, node, -1, in_of(&zt_grad_graph(b)->nodes[node], 2), -1);
    return true;
}

/* The standard's node keeps log p, if anything, whose gradient is LogSoftmax's. */
static bool standard_cross_entropy_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node n = zt_grad_graph(b)->nodes[node];
    int lse = emit_log_sum_exp(b, node), log_p = zt_grad_out(b, node, 1);
    if (lse >= 0)
        emit_grad(b, node, -1, in_of(&n, 2), lse);
    if (log_p >= 0) {
        struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = 1 };
        int pair[2] = { log_p, n.out[1] }, out;
        zt_emit_node(b, "LogSoftmaxGrad", "ztrain", pair, 2, NULL, &axis, 1, &out, 1);
        zt_grad_give(b, node, 0, out);
    }
    return true;
}

/* ---- rows ---- */

#define OWN_ROW                                                                                                        \
    .domain = "ztrain", .since = 1, .min_in = 2, .max_in = 4, .min_out = 1,                                            \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .no_grad_in = 0xe, .attrs = own_attrs,       \
    .infer = own_infer
#define GRAD_ROW                                                                                                       \
    .domain = "ztrain", .since = 1, .max_in = 6, .min_out = 1, .max_out = 1, .attrs = own_attrs, .infer = grad_infer,  \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }
#define STANDARD_ROW                                                                                                   \
    .domain = "", .since = 12, .min_in = 2, .max_in = 3, .min_out = 1,                                                 \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT }, .no_grad_in = 6, .attrs = standard_attrs,                  \
    .infer = standard_infer

const struct zt_op zt_op_cross_entropy = {
    .name = "CrossEntropy",
    OWN_ROW,
    .max_out = 2,
    .grad = cross_entropy_grad,
    .kernel = { [ZT_REF] = { .run = cross_entropy_ref }, [ZT_CUDA] = ZT_ON_CUDA(zt_cuda_cross_entropy) },
};
const struct zt_op zt_op_negative_log_likelihood = {
    .name = "NegativeLogLikelihood",
    OWN_ROW,
    .max_out = 2,
    .grad = likelihood_grad,
    .kernel = { [ZT_REF] = { .run = likelihood_ref } },
};
/* (dloss, logits, target, row weight, class weight, log sum exp) -> dlogits; the weights may be omitted */
const struct zt_op zt_op_cross_entropy_grad = {
    .name = "CrossEntropyGrad",
    GRAD_ROW,
    .min_in = 3,
    .kernel = { [ZT_REF] = { .run = grad_ref }, [ZT_CUDA] = ZT_ON_CUDA(zt_cuda_cross_entropy_grad) },
};
/* (dloss, log p, target, row weight, class weight) -> dlog p */
const struct zt_op zt_op_negative_log_likelihood_grad = {
    .name = "NegativeLogLikelihoodGrad",
    GRAD_ROW,
    .min_in = 3,
    .kernel = { [ZT_REF] = { .run = grad_ref } },
};
const struct zt_op zt_op_softmax_cross_entropy_loss = {
    .name = "SoftmaxCrossEntropyLoss",
    STANDARD_ROW,
    .max_out = 2,
    .grad = standard_cross_entropy_grad,
    .kernel = { [ZT_REF] = { .run = standard_cross_entropy_ref } },
};
const struct zt_op zt_op_negative_log_likelihood_loss = {
    .name = "NegativeLogLikelihoodLoss",
    STANDARD_ROW,
    .max_out = 1,
    .grad = standard_likelihood_grad,
    .kernel = { [ZT_REF] = { .run = standard_likelihood_ref } },
};
