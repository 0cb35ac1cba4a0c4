/* Cross-entropy over class probabilities. With s the weight of a row (its own or its sample's: ops/loss/loss.h), w that
 * of a class (1 where not given), C classes, e = label_smoothing, t the probabilities, and logp = x - log sum exp x:
 *
 *     q_c    = w_c ((1 - e) t_c + e / C)
 *     loss_i = - sum over c of q_c logp_c
 *     mean   = sum of s_i loss_i / sum of s_i
 *     dx_c   = dloss s_i / sum of s (p_c sum of q - q_c)
 *
 * ztrain.SoftCrossEntropy(logits, probabilities[, row weight[, class weight]]) -> loss, log sum exp of every row;
 * PyTorch's cross_entropy with probabilities as the target: class weights do not change the divisor. The loss of logits
 * in half precision is fp32. Where all rows weigh nothing, loss and gradient are 0. */
#include "ops/loss/kernels.h"

#include "ops/loss/launch_class_loss.h"
#include "ops/cuda/launch.h"
#include "ops/kernel/shape.h"
#include "ops/loss/loss.h"
#include "ops/loss/soft_loss_ref.h"

static const struct zt_attr_spec attrs[] = { { "axis", ZT_ATTR_INT }, { "label_smoothing", ZT_ATTR_FLOAT }, { 0 } };

/* ---- shape rules ---- */

static bool check_class_weight(const struct zt_graph *g, int node, const struct zt_value *weight, int64_t classes,
                               struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    return !weight || zt_shape_count(&weight->shape) == classes ||
           zt_node_fail(g, node, err, "weight \"%s\" has shape %s, wants one for each of the %lld classes",
                        weight->name, zt_shape_text(&weight->shape, text), (long long)classes);
}

/* Logits at input `first`, probabilities and weights behind them. *rows: the logits' shape without the classes. */
static bool check(const struct zt_graph *g, int node, int first, struct zt_shape *rows, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, first), *t = zt_in(g, node, first + 1);
    char s[ZT_SHAPE_TEXT], u[ZT_SHAPE_TEXT];
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->shape.rank, &axis, err))
        return false;
    if (!zt_shape_equal(&x->shape, &t->shape))
        return zt_node_fail(g, node, err, "probabilities \"%s\" have shape %s, the logits \"%s\" %s", t->name,
                            zt_shape_text(&t->shape, s), x->name, zt_shape_text(&x->shape, u));
    *rows = (struct zt_shape){ .rank = x->shape.rank - 1 };
    for (int k = 0; k < rows->rank; k++)
        rows->dim[k] = x->shape.dim[k + (k >= axis)];
    return zt_loss_weight_fits(g, node, zt_in(g, node, first + 2), rows, err) &&
           check_class_weight(g, node, zt_in(g, node, first + 3), x->shape.dim[axis], err);
}

static bool loss_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const enum zt_dtype kept = zt_in(g, node, 0)->dtype == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT;
    struct zt_shape rows;
    if (!check(g, node, 0, &rows, err))
        return false;
    zt_set_out(g, node, 0, kept, &(struct zt_shape){ 0 });
    zt_set_out(g, node, 1, kept, &rows);
    return true;
}

/* (dloss, logits, probabilities, row weight, class weight, log sum exp) */
static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 1), *lse = zt_in(g, node, 5);
    struct zt_shape rows;
    if (!check(g, node, 1, &rows, err))
        return false;
    if (!lse || zt_shape_count(&lse->shape) != zt_shape_count(&rows) || zt_shape_count(&zt_in(g, node, 0)->shape) != 1)
        return zt_node_fail(g, node, err, "wants one gradient, and a log sum exp of each of the %lld rows",
                            (long long)zt_shape_count(&rows));
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    return true;
}

static int in_of(const struct zt_node *n, int i) {
    return i < n->in_count ? n->in[i] : -1;
}

static bool soft_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[6] = { zt_grad_out(b, node, 0), n->in[0], n->in[1], in_of(n, 2), in_of(n, 3), n->out[1] }, out;
    zt_emit_node(b, &(struct zt_emission){ "SoftCrossEntropyGrad", "ztrain", in, 6, n }, &out, 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

/* ---- CUDA: a struct zt_launch_loss without addresses ---- */

static bool takes_cuda(const struct zt_graph *g, int node) {
    bool takes = true;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        takes &= !zt_in(g, node, i) || zt_dtype_in(zt_in(g, node, i)->dtype, ZT_CUDA_FLOATS);
    return takes;
}

static enum zt_dtype dtype_of(const struct zt_graph *g, int node, int in) {
    return zt_in(g, node, in) ? zt_in(g, node, in)->dtype : ZT_FLOAT;
}

static bool describe(const struct zt_graph *g, int node, int first, struct zt_launch_loss *to, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, first), *weight = zt_in(g, node, first + 2);
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->shape.rank, &axis, err))
        return false;
    const struct zt_axis_slices rows = zt_axis_slices_along(&x->shape, axis);
    *to = (struct zt_launch_loss){ .dtype = x->dtype,
                                   .loss_dtype = first == 0 ? zt_out(g, node, 0)->dtype : dtype_of(g, node, 0),
                                   .target_dtype = dtype_of(g, node, first + 1),
                                   .row_dtype = dtype_of(g, node, first + 2),
                                   .class_dtype = dtype_of(g, node, first + 3),
                                   .outer = rows.outer,
                                   .classes = rows.length,
                                   .inner = rows.inner,
                                   .room = rows.length,
                                   .samples = weight ? zt_shape_count(&weight->shape) : 1,
                                   .smoothing = zt_attr_float(g->nodes[node], "label_smoothing", 0),
                                   .mean = true,
                                   .own = true };
    return true;
}

static bool loss_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe(g, node, 0, to, err);
}

static bool grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe(g, node, 1, to, err);
}

/* ---- rows ---- */

const struct zt_op zt_op_soft_cross_entropy = {
    .name = "SoftCrossEntropy",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 4,
    .min_out = 2,
    .max_out = 2,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .no_grad_in = 0xe,
    .attrs = attrs,
    .infer = loss_infer,
    .grad = soft_grad,
    .kernel = { [ZT_REF] = { .run = zt_soft_loss_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_soft_loss_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(soft_loss, takes_cuda, loss_describe) },
};
/* (dloss, logits, probabilities, row weight, class weight, log sum exp) -> dlogits; the weights may be omitted */
const struct zt_op zt_op_soft_cross_entropy_grad = {
    .name = "SoftCrossEntropyGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(3, 6),
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .attrs = attrs,
    .infer = grad_infer,
    .kernel = { [ZT_REF] = { .run = zt_soft_loss_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_soft_loss_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(soft_loss_grad, takes_cuda, grad_describe) },
};
