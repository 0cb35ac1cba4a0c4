/* Every row of `length` elements is brought to mean 0 and variance 1, then scaled and shifted (norm.h has the
 * geometry):
 *
 *     y = xh scale + bias     xh = (x - mean) inv_std     inv_std = 1 / sqrt(var + epsilon)
 *
 * ONNX LayerNormalization (17 on), InstanceNormalization, GroupNormalization (18: a scale a group, 21 on: a channel),
 * and RMSNormalization (23 on), which takes no mean off and has inv_std = 1 / sqrt(mean x^2 + epsilon). With g = dy
 * scale and means over a row:
 *
 *     dx = inv_std (g - mean g - xh mean(g xh))      the second term only where the mean is taken off
 *     dscale = sum of dy xh, dbias = sum of dy       over the elements that share a scale
 *
 * In training LayerNormalization gives Mean and InvStdDev, which the gradient reads; the others' are found again by
 * ztrain.NormStats.
 *
 * FLOPs per element are those of DeepSpeed's profiler: 5 with a scale. DeepSpeed takes the backward phase as twice the
 * forward phase. It does not count RMSNormalization, which has one subtraction less; NormStats adds up x, subtracts the
 * mean, squares and adds up. NormGrad counts 10 in all cases. */
#include "ops/norm/norm.h"
#include "ops/norm/kernels.h"

#include "ops/norm/launch_norm.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/kernel/training_form.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

static const struct zt_attr_spec axis_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "epsilon", ZT_ATTR_FLOAT }, { "stash_type", ZT_ATTR_INT, .element_type = true }, { 0 }
};
static const struct zt_attr_spec rms_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "epsilon", ZT_ATTR_FLOAT }, { "stash_type", ZT_ATTR_INT, .element_type = true }, { 0 }
};
static const struct zt_attr_spec instance_attrs[] = { { "epsilon", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec group_attrs[] = { { "num_groups", ZT_ATTR_INT, true },
                                                   { "epsilon", ZT_ATTR_FLOAT },
                                                   { "stash_type", ZT_ATTR_INT, .element_type = true },
                                                   { 0 } };
static const struct zt_attr_spec own_attrs[] = { { "rows", ZT_ATTR_INT, true },    { "period", ZT_ATTR_INT, true },
                                                 { "per_row", ZT_ATTR_INT, true }, { "centred", ZT_ATTR_INT, true },
                                                 { "epsilon", ZT_ATTR_FLOAT },     { 0 } };

/* ---- geometry ---- */

/* ---- shape rules ---- */

static bool check_scales(const struct zt_graph *g, int node, int first, const struct zt_norm *norm,
                         struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    int64_t want = norm->period * norm->per_row;
    for (int i = first; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && zt_shape_count(&v->shape) != want)
            return zt_node_fail(g, node, err, "input \"%s\" has shape %s, wants %lld elements", v->name,
                                zt_shape_text(&v->shape, text), (long long)want);
    }
    return true;
}

static enum zt_dtype statistics_type(enum zt_dtype x) {
    return x == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT;
}

static bool norm_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_norm norm;
    if (!zt_norm_read(g, node, &norm, err) || !check_scales(g, node, 1, &norm, err))
        return false;
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape statistics = x->shape;
    int64_t axis = zt_attr_int(g->nodes[node], "axis", -1);
    for (int k = (int)(axis < 0 ? axis + statistics.rank : axis); k < statistics.rank; k++)
        statistics.dim[k] = 1;
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    zt_set_out(g, node, 1, statistics_type(x->dtype), &statistics);
    zt_set_out(g, node, 2, statistics_type(x->dtype), &statistics);
    return true;
}

static bool stats_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_norm norm;
    if (!zt_norm_read_rows(g, node, 0, &norm, err))
        return false;
    for (int i = 0; i < 2; i++)
        zt_set_out(g, node, i, statistics_type(zt_in(g, node, 0)->dtype), &(struct zt_shape){ 1, { norm.rows } });
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_norm norm;
    const struct zt_value *dy = zt_in(g, node, 0), *x = zt_in(g, node, 1), *scale = zt_in(g, node, 2);
    if (!zt_in(g, node, 4))
        return zt_node_fail(g, node, err, "input 4 is missing");
    if (!zt_norm_read_rows(g, node, 1, &norm, err))
        return false;
    if (!zt_shape_equal(&dy->shape, &x->shape) || zt_shape_count(&scale->shape) != norm.period * norm.per_row)
        return zt_node_fail(g, node, err, "\"%s\", \"%s\" and \"%s\" do not fit", dy->name, x->name, scale->name);
    for (int i = 3; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && zt_shape_count(&zt_in(g, node, i)->shape) != norm.rows)
            return zt_node_fail(g, node, err, "input %d does not have one number a row", i);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    zt_set_out(g, node, 1, scale->dtype, &scale->shape);
    zt_set_out(g, node, 2, scale->dtype, &scale->shape);
    return true;
}

/* ---- kernels ---- */

static const struct zt_view *view(const struct zt_view *all, int count, int i) {
    return i < count && all[i].data ? &all[i] : NULL;
}

static double number(const struct zt_view *v, int64_t i, double otherwise) {
    return v ? zt_load_double(v->dtype, v->data, i) : otherwise;
}

static void put(const struct zt_call *call, int out, int64_t i, double value) {
    const struct zt_view *v = view(call->out, call->out_count, out);
    if (v)
        zt_store_double(v->dtype, v->data, i, value);
}

/* to[i] = the entry of `from` (scale, bias) that belongs to element at + i of row `row`. */
static void load_scales(const struct zt_norm *n, const struct zt_view *from, int64_t row, int64_t at, int64_t count,
                        double *to) {
    int64_t first = row % n->period * n->per_row;
    if (n->per_scale == 1) {
        zt_load_block(from->dtype, from->data, first + at, 1, count, to);
        return;
    }
    for (int64_t i = 0; i < count;) {
        int64_t end = zt_min_int(count, ((at + i) / n->per_scale + 1) * n->per_scale - at);
        double value = zt_load_double(from->dtype, from->data, first + (at + i) / n->per_scale);
        for (; i < end; i++)
            to[i] = value;
    }
}

/* mean of (x - shift)^power, power 1 or 2 */
static double row_mean(const struct zt_view *x, const struct zt_norm *n, int64_t row, double shift, int power) {
    double block[ZT_ELEMENT_BLOCK], sum = 0;
    for (int64_t at = 0; at < n->length; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, n->length - at);
        zt_load_block(x->dtype, x->data, row * n->length + at, 1, count, block);
        for (int64_t i = 0; i < count; i++)
            sum += power == 1 ? block[i] : (block[i] - shift) * (block[i] - shift);
    }
    return sum / (double)n->length;
}

static void row_stats(const struct zt_view *x, const struct zt_norm *n, int64_t row, double *mean, double *inv_std) {
    *mean = n->centred ? row_mean(x, n, row, 0, 1) : 0;
    *inv_std = 1 / sqrt(row_mean(x, n, row, *mean, 2) + n->epsilon);
}

static void norm_row(const struct zt_call *call, const struct zt_norm *n, int64_t row) {
    const struct zt_view *x = &call->in[0], *bias = view(call->in, call->in_count, 2);
    double mean, inv_std, block[ZT_ELEMENT_BLOCK], scale[ZT_ELEMENT_BLOCK], shift[ZT_ELEMENT_BLOCK] = { 0 };
    row_stats(x, n, row, &mean, &inv_std);
    put(call, 1, row, mean);
    put(call, 2, row, inv_std);
    for (int64_t at = 0; at < n->length; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, n->length - at);
        zt_load_block(x->dtype, x->data, row * n->length + at, 1, count, block);
        load_scales(n, &call->in[1], row, at, count, scale);
        if (bias)
            load_scales(n, bias, row, at, count, shift);
        for (int64_t i = 0; i < count; i++)
            block[i] = (block[i] - mean) * inv_std * scale[i] + shift[i];
        zt_store_block(call->out[0].dtype, call->out[0].data, row * n->length + at, 1, count, block);
    }
}

static double work_of(const struct zt_norm *n) {
    return 8.0 * (double)n->rows * (double)n->length;
}

struct job {
    const struct zt_call *call;
    struct zt_norm n;
    int64_t step, pieces; /* of gradients: entries of a piece, pieces of a part */
};

static bool each(struct job *j, int64_t count, void (*one)(void *arg, int64_t i)) {
    zt_parallel_for(zt_threads_worth(j->call->threads, work_of(&j->n)), count, one, j);
    return true;
}

static void run_norm_row(void *arg, int64_t row) {
    const struct job *j = arg;
    norm_row(j->call, &j->n, row);
}

static bool norm_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    return zt_norm_read(call->graph, zt_call_node(call), &j.n, err) && each(&j, j.n.rows, run_norm_row);
}

static void run_stats_row(void *arg, int64_t row) {
    const struct job *j = arg;
    double mean, inv_std;
    row_stats(&j->call->in[0], &j->n, row, &mean, &inv_std);
    put(j->call, 0, row, mean);
    put(j->call, 1, row, inv_std);
}

static bool stats_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    return zt_norm_read_rows(call->graph, zt_call_node(call), 0, &j.n, err) && each(&j, j.n.rows, run_stats_row);
}

/* g = dy scale and xh of elements [at, at + count) of a row. */
static void load_row(const struct job *j, int64_t row, int64_t at, int64_t count, double *g, double *xh) {
    const struct zt_call *call = j->call;
    const struct zt_norm *n = &j->n;
    double scale[ZT_ELEMENT_BLOCK], mean = number(view(call->in, call->in_count, 3), row, 0);
    double inv_std = number(&call->in[4], row, 0);
    zt_load_block(call->in[0].dtype, call->in[0].data, row * n->length + at, 1, count, g);
    zt_load_block(call->in[1].dtype, call->in[1].data, row * n->length + at, 1, count, xh);
    load_scales(n, &call->in[2], row, at, count, scale);
    for (int64_t i = 0; i < count; i++) {
        g[i] *= scale[i];
        xh[i] = (xh[i] - mean) * inv_std;
    }
}

/* Inputs 5 and 6 are the gradients of the row's mean and inv_std themselves. */
static void grad_row(const struct job *j, int64_t row) {
    const struct zt_call *call = j->call;
    const struct zt_norm *n = &j->n;
    double g[ZT_ELEMENT_BLOCK], xh[ZT_ELEMENT_BLOCK], sum = 0, product = 0, inv_std = number(&call->in[4], row, 0);
    for (int64_t at = 0; at < n->length; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, n->length - at);
        load_row(j, row, at, count, g, xh);
        for (int64_t i = 0; i < count; i++) {
            sum += g[i];
            product += g[i] * xh[i];
        }
    }
    double shift = n->centred ? -inv_std * sum : 0, slope = -inv_std * product;
    shift += number(view(call->in, call->in_count, 5), row, 0);
    slope -= number(view(call->in, call->in_count, 6), row, 0) * inv_std * inv_std;
    for (int64_t at = 0; at < n->length; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, n->length - at);
        load_row(j, row, at, count, g, xh);
        for (int64_t i = 0; i < count; i++)
            g[i] = inv_std * g[i] + (shift + slope * xh[i]) / (double)n->length;
        zt_store_block(call->out[0].dtype, call->out[0].data, row * n->length + at, 1, count, g);
    }
}

/* dscale and dbias of entries [first, first + count) of part `part`, which every period-th row shares: entries are
 * neighbours where per_scale is 1; otherwise there is one, whose elements are. */
static void scale_sums(const struct zt_call *call, const struct zt_norm *n, int64_t part, int64_t first,
                       int64_t count) {
    double dscale[ZT_ELEMENT_BLOCK] = { 0 }, dbias[ZT_ELEMENT_BLOCK] = { 0 }, dy[ZT_ELEMENT_BLOCK], x[ZT_ELEMENT_BLOCK];
    bool apart = n->per_scale == 1;
    for (int64_t row = part; row < n->rows; row += n->period) {
        double mean = number(view(call->in, call->in_count, 3), row, 0), inv_std = number(&call->in[4], row, 0);
        for (int64_t at = 0; at < n->per_scale; at += ZT_ELEMENT_BLOCK) {
            int64_t elems = apart ? count : zt_min_int(ZT_ELEMENT_BLOCK, n->per_scale - at),
                    from = row * n->length + first * n->per_scale + at;
            zt_load_block(call->in[0].dtype, call->in[0].data, from, 1, elems, dy);
            zt_load_block(call->in[1].dtype, call->in[1].data, from, 1, elems, x);
            for (int64_t i = 0; i < elems; i++) {
                dscale[apart ? i : 0] += dy[i] * (x[i] - mean) * inv_std;
                dbias[apart ? i : 0] += dy[i];
            }
        }
    }
    for (int64_t i = 0; i < count; i++) {
        put(call, 1, part * n->per_row + first + i, dscale[i]);
        put(call, 2, part * n->per_row + first + i, dbias[i]);
    }
}

static void run_grad_row(void *arg, int64_t row) {
    grad_row(arg, row);
}

static void run_scale_sums(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t first = i % j->pieces * j->step;
    scale_sums(j->call, &j->n, i / j->pieces, first, zt_min_int(j->step, j->n.per_row - first));
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (!zt_norm_read_rows(call->graph, zt_call_node(call), 1, &j.n, err))
        return false;
    j.step = j.n.per_scale == 1 ? ZT_ELEMENT_BLOCK : 1;
    j.pieces = zt_ceil_div(j.n.per_row, j.step);
    return each(&j, j.n.rows, run_grad_row) && each(&j, j.n.period * j.pieces, run_scale_sums);
}

/* ---- gradient rule ---- */

static bool norm_grad(struct zt_grad *b, int node, struct zt_err *err) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    struct zt_norm norm;
    struct zt_attr attrs[ZT_NORM_ATTRS];
    if (!zt_norm_read(zt_grad_graph(b), node, &norm, err))
        return false;
    zt_norm_attrs(&norm, attrs);
    int stats[2] = { n->out_count > 1 ? n->out[1] : -1, n->out_count > 2 ? n->out[2] : -1 };
    if (stats[1] < 0 || (norm.centred && stats[0] < 0))
        zt_emit_node(b, &(struct zt_emission){ "NormStats", "ztrain", n->in, 1, NULL, attrs, ZT_NORM_ATTRS }, stats, 2);
    int in[7] = { zt_grad_out_or_zero(b, node, 0), n->in[0], n->in[1],
                  norm.centred ? stats[0] : -1,    stats[1], zt_grad_out(b, node, 1),
                  zt_grad_out(b, node, 2) };
    int out[3], count = in[6] >= 0 ? 7 : in[5] >= 0 ? 6 : 5;
    zt_emit_node(b, &(struct zt_emission){ "NormGrad", "ztrain", in, count, NULL, attrs, ZT_NORM_ATTRS - 1 }, out, 3);
    for (int i = 0; i < 3; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, i ? zt_emit_reshape_like(b, out[i], n->in[i]) : out[0]);
    return true;
}

/* ---- training form: the same row, giving what the gradient reads ---- */

static bool layer_norm_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    return options->evaluation || zt_train_rewrite(g, node, g->nodes[node]->op, 3, err);
}

/* ---- what other back ends are told: a struct zt_launch_norm ---- */

static void tell(const struct zt_norm *n, struct zt_launch_norm *to) {
    *to = (struct zt_launch_norm){ .rows = n->rows,
                                   .length = n->length,
                                   .period = n->period,
                                   .per_row = n->per_row,
                                   .per_scale = n->per_scale,
                                   .centred = n->centred,
                                   .epsilon = (float)n->epsilon };
}

static bool norm_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_norm n;
    bool ok = zt_norm_read(g, node, &n, err);
    tell(&n, to);
    return ok;
}

static bool stats_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_norm n;
    bool ok = zt_norm_read_rows(g, node, 0, &n, err);
    tell(&n, to);
    return ok;
}

static bool grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_norm n;
    bool ok = zt_norm_read_rows(g, node, 1, &n, err);
    tell(&n, to);
    return ok;
}

/* ---- rows ---- */

#define NORM_ROW                                                                                                       \
    .domain = "", .min_in = 2, .max_in = 3, .min_out = 1, .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },    \
    .infer = norm_infer, .grad = norm_grad, .flags = ZT_OP_PASSES_HALF, .full_in = ~1U, .full_out = ~1U,               \
    .kernel = { [ZT_REF] = { .run = norm_ref },                                                                        \
                [ZT_CPU] = ZT_ON_CPU(zt_norm_cpu),                                                                     \
                [ZT_CUDA] = ZT_CUDA_AS(norm, zt_cuda_any_floats, norm_describe) }

const struct zt_op zt_op_layer_normalization = {
    NORM_ROW,        .name = "LayerNormalization", .since = 17,
    .max_out = 3,    .attrs = axis_attrs,          .train = layer_norm_train,
    .flops_each = 5,
};
const struct zt_op zt_op_rms_normalization = {
    NORM_ROW, .name = "RMSNormalization", .since = 23, .max_out = 1, .attrs = rms_attrs, .flops_each = 4,
};
const struct zt_op zt_op_instance_normalization = {
    NORM_ROW, .name = "InstanceNormalization", .since = 6, .max_out = 1, .attrs = instance_attrs, .flops_each = 5,
};
const struct zt_op zt_op_group_normalization = {
    NORM_ROW, .name = "GroupNormalization", .since = 18, .max_out = 1, .attrs = group_attrs, .flops_each = 5,
};
/* x -> mean, inv_std, one a row; a mean of 0 where it is not taken off */
const struct zt_op zt_op_norm_stats = {
    .name = "NormStats",
    .domain = "ztrain",
    .since = 1,
    .min_in = 1,
    .max_in = 1,
    .min_out = 2,
    .max_out = 2,
    .flags = ZT_OP_PASSES_HALF,
    .full_in = ~1U,
    .full_out = ~0U,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = own_attrs,
    .infer = stats_infer,
    .flops_each = 4,
    .body = zt_norm_stats_function_body,
    .kernel = { [ZT_REF] = { .run = stats_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_stats_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(norm_stats, zt_cuda_any_floats, stats_describe) },
};
/* (dy, x, scale, mean or nothing, inv_std[, dmean[, dinv_std]]) -> dx, dscale, dbias */
const struct zt_op zt_op_norm_grad = {
    .name = "NormGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = 7,
    .min_out = 1,
    .max_out = 3,
    .flags = ZT_OP_PASSES_HALF,
    .full_in = ~3U,
    .full_out = ~1U,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .attrs = own_attrs,
    .infer = grad_infer,
    .flops_each = 10,
    .body = zt_norm_grad_function_body,
    .kernel = { [ZT_REF] = { .run = grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(norm_grad, zt_cuda_any_floats, grad_describe) },
};
