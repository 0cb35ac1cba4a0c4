/* ONNX function bodies of batch, layer, group, instance and RMS normalisation: gradients, statistics, and the form of
 * BatchNormalization before opset 14 (formulas in norm.c and batch_norm.c). */
#include "ops/norm/kernels.h"
#include "ops/norm/norm.h"
#include "ops/kernel/shape.h"

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
                         (long long)(n.rows / n.period), (long long)n.period, (long long)n.per_row,
                         (long long)n.per_scale, (long long)(n.rows / n.period), (long long)n.period);
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
