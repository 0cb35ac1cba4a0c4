/* Normalisations, softmax and the losses over classes, backwards (formulas in norm.c, batch_norm.c, norm_slices.c,
 * softmax.c and class_loss.c). */
#include "ops/kernel/function_bodies.h"
#include "ops/kernel/axis_slices.h"
#include "ops/norm/norm.h"
#include "ops/kernel/shape.h"
#include "ops/softmax/softmax.h"

#include <string.h>

/* ---- lines ---- */

static const char *lines_shape(struct zt_function_body *b, const struct zt_axis_slices *l) {
    return zt_function_body_list(b, (const int64_t[]){ l->outer, l->length, l->inner }, 3);
}

static const char *out_shape(struct zt_function_body *b, int out) {
    return zt_function_body_dims(b, &zt_out(b->g, b->node, out)->shape);
}

/* The forms before opset 13: a line is a row of the input made a matrix. */
static bool say_flat(struct zt_function_body *b, const char *op, struct zt_err *err) {
    struct zt_axis_slices lines;
    if (!zt_softmax_read(b->g, b->node, &lines, err))
        return false;
    zt_function_body_names(b, "x -> y");
    zt_function_body_add(b, "y = Reshape(%s<axis=1>(Reshape(x, %s)), %s)", op, lines_shape(b, &lines), out_shape(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_softmax_function_body) {
    (void)g, (void)node;
    return say_flat(b, b->g->nodes[b->node]->op_type, err);
}

ZT_FUNCTION_BODY(zt_softmax_grad_function_body) {
    struct zt_axis_slices lines;
    if (!zt_softmax_read(g, node, &lines, err))
        return false;
    zt_function_body_names(b, "dy, y -> dx");
    zt_function_body_add(b, "lines = %s; dy = Reshape(dy, lines); y = Reshape(y, lines)", lines_shape(b, &lines));
    zt_function_body_add(b, "dx = Reshape(y * (dy - ReduceSum(dy * y, [1])), %s)", out_shape(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_log_softmax_grad_function_body) {
    struct zt_axis_slices lines;
    if (!zt_softmax_read(g, node, &lines, err))
        return false;
    zt_function_body_names(b, "dy, y -> dx");
    zt_function_body_add(b, "lines = %s; dy = Reshape(dy, lines); y = Reshape(y, lines)", lines_shape(b, &lines));
    zt_function_body_add(b, "dx = Reshape(dy - Exp(y) * ReduceSum(dy, [1]), %s)", out_shape(b, 0));
    return true;
}

/* ---- losses over classes: lines [outer, classes, inner], everything that is one a line [outer, 1, inner] ---- */

static bool read_classes(const struct zt_graph *g, int node, struct zt_axis_slices *lines, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 1)->shape;
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->rank, &axis, err))
        return false;
    *lines = zt_axis_slices_along(x, axis);
    return true;
}

/* sample: the weight of each line: its own or its sample's (ops/loss/loss.h) */
static void say_samples(struct zt_function_body *b, const struct zt_axis_slices *l) {
    const struct zt_value *weight = zt_in(b->g, b->node, 3);
    int64_t weights = weight ? zt_shape_count(&weight->shape) : 0, count = l->outer * l->inner;
    zt_function_body_add(b, "sample = 1");
    if (weights > 0)
        zt_function_body_add(b, "sample = Reshape(Expand(Reshape(sample_weight, [%lld, 1]), [%lld, %lld]), each)",
                             (long long)weights, (long long)weights, (long long)(count / weights));
}

/* hot: 1 at a line's target; weight: of its target's class; counted: whether it is; factor: what dloss is to it */
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

/* slope: of the loss of a line by its log p, where p is a name, and by -p's normalisation */
static bool say_loss(struct zt_function_body *b, bool softmax, struct zt_err *err) {
    struct zt_axis_slices lines;
    if (!read_classes(b->g, b->node, &lines, err))
        return false;
    zt_function_body_names(b, "dloss, x, target, sample_weight, class_weight, log_sum -> dx");
    zt_function_body_number(b, "smooth", (double)zt_attr_float(b->g->nodes[b->node], "label_smoothing", 0));
    say_targets(b, &lines);
    zt_function_body_add(b, "slope = -(1 - smooth) * weight * hot - smooth / %lld * class", (long long)lines.length);
    if (softmax)
        zt_function_body_add(
            b, "p = Exp(Reshape(x, %s) - Reshape(log_sum, each)); slope = slope - p * ReduceSum(slope, [1])",
            lines_shape(b, &lines));
    zt_function_body_add(b, "dx = Reshape(Where(counted, factor * slope, 0), %s)", out_shape(b, 0));
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

/* ---- layer, group, instance and RMS normalisation ---- */

ZT_FUNCTION_BODY(zt_norm_stats_function_body) {
    struct zt_norm n;
    if (!zt_norm_read_rows(g, node, 0, &n, err))
        return false;
    zt_function_body_names(b, "x -> mean, inv_std");
    zt_function_body_number(b, "epsilon", n.epsilon);
    zt_function_body_add(b, "x = Reshape(x, [%lld, %lld])", (long long)n.rows, (long long)n.length);
    zt_function_body_add(b, n.centred ? "mean = ReduceMean(x, [1])" : "mean = Expand(0, [%lld, 1])", (long long)n.rows);
    zt_function_body_add(b, "inv_std = Reshape(1 / Sqrt(ReduceMean((x - mean) * (x - mean), [1]) + epsilon), [%lld])",
                         (long long)n.rows);
    zt_function_body_add(b, "mean = Reshape(mean, [%lld])", (long long)n.rows);
    return true;
}

/* Axes: repetitions of the period, rows of a period, parts of a row, elements of a part. */
ZT_FUNCTION_BODY(zt_norm_grad_function_body) {
    struct zt_norm n;
    if (!zt_norm_read_rows(g, node, 1, &n, err))
        return false;
    zt_function_body_names(b, "dy, x, scale, mean, inv_std, dmean, dinv_std -> dx, dscale, dbias");
    zt_function_body_add(b, "whole = [%lld, %lld, %lld, %lld]; rows = [%lld, %lld, 1, 1]",
                         (long long)(n.rows / n.period), (long long)n.period, (long long)n.per_row, (long long)n.run,
                         (long long)(n.rows / n.period), (long long)n.period);
    zt_function_body_add(b, "dy = Reshape(dy, whole); x = Reshape(x, whole); inv_std = Reshape(inv_std, rows)");
    if (zt_in(g, node, 3))
        zt_function_body_add(b, "x = x - Reshape(mean, rows)");
    zt_function_body_add(b, "xh = x * inv_std; g = dy * Reshape(scale, [1, %lld, %lld, 1])", (long long)n.period,
                         (long long)n.per_row);
    zt_function_body_add(b, "dx = inv_std * (g %s - xh * ReduceMean(g * xh, [2, 3]))",
                         n.centred ? "- ReduceMean(g, [2, 3])" : "");
    if (zt_in(g, node, 5))
        zt_function_body_add(b, "dx = dx + Reshape(dmean, rows) / %lld", (long long)n.length);
    if (zt_in(g, node, 6))
        zt_function_body_add(b, "dx = dx - Reshape(dinv_std, rows) * inv_std * inv_std * xh / %lld",
                             (long long)n.length);
    zt_function_body_add(b, "dx = Reshape(dx, %s)", out_shape(b, 0));
    if (zt_function_body_wants(b, 1))
        zt_function_body_add(b, "dscale = Reshape(ReduceSum(dy * xh, [0, 3]), %s)", out_shape(b, 1));
    if (zt_function_body_wants(b, 2))
        zt_function_body_add(b, "dbias = Reshape(ReduceSum(dy, [0, 3]), %s)", out_shape(b, 2));
    return true;
}

/* ---- batch normalisation: [n, channels, spatial], statistics [1, channels, 1] ---- */

static void say_planes(struct zt_function_body *b, const struct zt_batch_norm *n, const char *name) {
    zt_function_body_add(b, "%s = Reshape(%s, [%lld, %lld, %lld])", name, name, (long long)n->n, (long long)n->channels,
                         (long long)n->spatial);
}

static void say_channels(struct zt_function_body *b, const struct zt_batch_norm *n, const char *name) {
    zt_function_body_add(b, "%s = Reshape(%s, [1, %lld, 1])", name, name, (long long)n->channels);
}

ZT_FUNCTION_BODY(zt_batch_norm_train_function_body) {
    struct zt_batch_norm n;
    if (!zt_batch_norm_read(g, node, 0, &n, err))
        return false;
    zt_function_body_names(b, "x, scale, bias, old_mean, old_var -> y, new_mean, new_var, mean, inv_std");
    zt_function_body_number(b, "epsilon", n.epsilon);
    zt_function_body_number(b, "keep", n.momentum);
    say_planes(b, &n, "x");
    say_channels(b, &n, "scale");
    say_channels(b, &n, "bias");
    zt_function_body_add(b,
                         "mean = ReduceMean(x, [0, 2]); x = x - mean; var = ReduceMean(x * x, [0, 2]);"
                         "inv_std = 1 / Sqrt(var + epsilon)");
    zt_function_body_add(b, "y = Reshape(x * inv_std * scale + bias, %s)", out_shape(b, 0));
    zt_function_body_add(b, "channels = [%lld]; mean = Reshape(mean, channels); inv_std = Reshape(inv_std, channels)",
                         (long long)n.channels);
    zt_function_body_add(b,
                         "new_mean = old_mean * keep + mean * (1 - keep);"
                         "new_var = old_var * keep + Reshape(var, channels) * (1 - keep)");
    return true;
}

/* xh, g = dy scale inv_std, and what is summed over a channel */
static void say_batch_sums(struct zt_function_body *b, const struct zt_batch_norm *n) {
    say_planes(b, n, "dy");
    say_planes(b, n, "x");
    say_channels(b, n, "scale");
    say_channels(b, n, "mean");
    say_channels(b, n, "inv_std");
    zt_function_body_add(b, "centred = x - mean; xh = centred * inv_std");
    zt_function_body_add(b, "sum = ReduceSum(dy, [0, 2]); product = ReduceSum(dy * xh, [0, 2])");
    zt_function_body_add(b, "channels = [%lld]; dscale = Reshape(product, channels); dbias = Reshape(sum, channels)",
                         (long long)n->channels);
}

ZT_FUNCTION_BODY(zt_batch_norm_grad_function_body) {
    struct zt_batch_norm n;
    if (!zt_batch_norm_read(g, node, 1, &n, err))
        return false;
    long long count = n.n * n.spatial;
    zt_function_body_names(b, "dy, x, scale, mean, inv_std, dmean, dvar -> dx, dscale, dbias");
    say_batch_sums(b, &n);
    zt_function_body_add(b, "dx = scale * inv_std * (dy - (sum + xh * product) / %lld)", count);
    if (zt_in(g, node, 5))
        zt_function_body_add(b, "dx = dx + Reshape(dmean, [1, %lld, 1]) / %lld", (long long)n.channels, count);
    if (zt_in(g, node, 6))
        zt_function_body_add(b, "dx = dx + 2 * centred * Reshape(dvar, [1, %lld, 1]) / %lld", (long long)n.channels,
                             count);
    zt_function_body_add(b, "dx = Reshape(dx, %s)", out_shape(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_batch_norm_fixed_grad_function_body) {
    struct zt_batch_norm n;
    if (!zt_batch_norm_read(g, node, 1, &n, err))
        return false;
    zt_function_body_names(b, "dy, x, scale, mean, var -> dx, dscale, dbias");
    zt_function_body_number(b, "epsilon", n.epsilon);
    zt_function_body_add(b, "inv_std = 1 / Sqrt(var + epsilon)");
    say_batch_sums(b, &n);
    zt_function_body_add(b, "dx = Reshape(dy * scale * inv_std, %s)", out_shape(b, 0));
    return true;
}

/* ---- without learned scale ---- */

ZT_FUNCTION_BODY(zt_lp_normalization_grad_function_body) {
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", -1), zt_in(g, node, 1)->shape.rank, &axis, err))
        return false;
    bool first = zt_attr_int(g->nodes[node], "p", 2) == 1;
    zt_function_body_names(b, "dy, x -> dx");
    zt_function_body_add(b, first ? "n = ReduceSum(Abs(x), [%d])" : "n = Sqrt(ReduceSum(x * x, [%d]))", axis);
    zt_function_body_add(b, "zero = Equal(n, 0); n = Where(zero, 1, n); d = %s", first ? "Sign(x)" : "x / n");
    zt_function_body_add(b, "dx = Where(zero, 0, (dy - d * ReduceSum(dy * x / n, [%d])) / n)", axis);
    return true;
}

/* The sum over neighbouring channels is a product with a matrix of ones about the diagonal. */
ZT_FUNCTION_BODY(zt_lrn_grad_function_body) {
    (void)err;
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 1)->shape;
    int64_t channels = x->dim[1], size = zt_attr_int(n, "size", 1);
    struct zt_shape square = { 2, { channels, channels } };
    double *band = ZT_NEW_N(b->arena, double, channels *channels);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t j = 0; j < channels; j++)
            band[c * channels + j] = j >= c - (size - 1) / 2 && j <= c + size / 2;
    zt_function_body_names(b, "dy, x -> dx");
    zt_function_body_doubles(b, "band", &square, band);
    zt_function_body_number(b, "alpha", (double)zt_attr_float(n, "alpha", 1e-4f) / (double)size);
    zt_function_body_number(b, "beta", (double)zt_attr_float(n, "beta", 0.75f));
    zt_function_body_number(b, "bias", (double)zt_attr_float(n, "bias", 1));
    zt_function_body_add(b, "planes = [%lld, %lld, %lld]; dy = Reshape(dy, planes); x = Reshape(x, planes)",
                         (long long)x->dim[0], (long long)channels, (long long)zt_dims(x, 2, x->rank));
    zt_function_body_add(b, "s = bias + alpha * MatMul(band, x * x); inner = dy * x * Pow(s, -beta - 1)");
    zt_function_body_add(b, "dx = dy * Pow(s, -beta) - 2 * alpha * beta * x * MatMul(Transpose(band), inner)");
    zt_function_body_add(b, "dx = Reshape(dx, %s)", out_shape(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_mean_variance_normalization_grad_function_body) {
    const int64_t usual[] = { 0, 2, 3 };
    bool marked[ZT_MAX_RANK];
    int count;
    const struct zt_shape *x = &zt_in(g, node, 1)->shape;
    const int64_t *axes = zt_attr_ints(g->nodes[node], "axes", &count);
    if (!zt_ops_axes(g, node, -1, "axes", x->rank, marked, &count, err))
        return false;
    int64_t elements = 1;
    for (int i = 0; i < (axes ? count : 3); i++) {
        int64_t axis = axes ? axes[i] : usual[i];
        elements *= x->dim[axis < 0 ? axis + x->rank : axis];
    }
    zt_function_body_names(b, "dy, x -> dx");
    zt_function_body_add(
        b, "axes = %s; x = x - ReduceMean(x, axes); std = Sqrt(ReduceMean(x * x, axes)); d = std + 0.000000001",
        zt_function_body_list(b, axes ? axes : usual, axes ? count : 3));
    zt_function_body_add(b, "dx = (dy - ReduceMean(dy, axes)) / d - x * ReduceSum(dy * x, axes) / (%lld * std * d * d)",
                         (long long)elements);
    return true;
}
