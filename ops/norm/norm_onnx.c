/* Normalisations, softmax and the losses over classes, backwards (formulas in norm.c, batch_norm.c, norm_slices.c,
 * softmax.c and class_loss.c). */
#include "ops/norm/kernels.h"
#include "ops/kernel/axis_slices.h"
#include "ops/norm/norm.h"
#include "ops/kernel/shape.h"
#include "ops/softmax/softmax.h"

#include <string.h>

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
    zt_function_body_add(b, "dx = Reshape(dx, %s)", zt_body_out(b, 0));
    if (zt_function_body_wants(b, 1))
        zt_function_body_add(b, "dscale = Reshape(ReduceSum(dy * xh, [0, 3]), %s)", zt_body_out(b, 1));
    if (zt_function_body_wants(b, 2))
        zt_function_body_add(b, "dbias = Reshape(ReduceSum(dy, [0, 3]), %s)", zt_body_out(b, 2));
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
    zt_function_body_add(b, "y = Reshape(x * inv_std * scale + bias, %s)", zt_body_out(b, 0));
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
    zt_function_body_add(b, "dx = Reshape(dx, %s)", zt_body_out(b, 0));
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
    zt_function_body_add(b, "dx = Reshape(dy * scale * inv_std, %s)", zt_body_out(b, 0));
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
    zt_function_body_add(b, "dx = Reshape(dx, %s)", zt_body_out(b, 0));
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

/* More outputs than one meant training: the new running statistics, then the batch's own. */
ZT_FUNCTION_BODY(zt_batch_norm_old_function_body) {
    struct zt_batch_norm n;
    if (!zt_batch_norm_read(g, node, 0, &n, err))
        return false;
    bool trains = g->nodes[node]->out_count > 1;
    zt_function_body_names(b, "x, scale, bias, mean, var -> y, new_mean, new_var, batch_mean, batch_var");
    zt_function_body_number(b, "epsilon", n.epsilon);
    zt_function_body_number(b, "keep", n.momentum);
    zt_function_body_add(b, "x = Reshape(x, [%lld, %lld, %lld]); channels = [%lld]; each = [1, %lld, 1]",
                         (long long)n.n, (long long)n.channels, (long long)n.spatial, (long long)n.channels,
                         (long long)n.channels);
    zt_function_body_add(b, "batch_mean = mean; batch_var = var");
    if (trains)
        zt_function_body_add(b,
                             "m = ReduceMean(x, [0, 2]); batch_mean = Reshape(m, channels);"
                             "batch_var = Reshape(ReduceMean((x - m) * (x - m), [0, 2]), channels)");
    zt_function_body_add(
        b, "new_mean = mean * keep + batch_mean * (1 - keep); new_var = var * keep + batch_var * (1 - keep)");
    zt_function_body_add(b,
                         "factor = Reshape(scale / Sqrt(batch_var + epsilon), each);"
                         "y = (x - Reshape(batch_mean, each)) * factor + Reshape(bias, each)");
    zt_function_body_add(b, "y = Reshape(y, %s)", zt_function_body_dims(b, &zt_out(g, node, 0)->shape));
    return true;
}
