/* Normalisations without learned scale.
 *
 * LpNormalization, along one axis, norm n = (sum |x|^p)^(1/p), p 1 or 2; a slice of zeros stays zero:
 *     y = x / n     dx = (dy - d sum(dy y)) / n, d = sign(x) for p = 1 and y for p = 2
 * LRN, over s[c] = bias + alpha / size sum of x[j]^2 for the channels j from c - (size - 1) / 2 to c + size / 2:
 *     y = x s^-beta
 *     dx[c] = dy[c] s[c]^-beta - 2 alpha beta / size x[c] sum of dy[j] x[j] s[j]^(-beta - 1), j: whose sum holds c
 * MeanVarianceNormalization, over the M elements that share the axes not in `axes`, d = std + 1e-9, as its body has it:
 *     y = (x - mean) / d
 *     dx = (dy - mean dy) / d - (x - mean) sum(dy (x - mean)) / (M std d^2)
 *
 * FLOPs per element: MeanVarianceNormalization has the 4 of a norm without scale in DeepSpeed's profiler, which counts
 * LRN as 4 by its parts (square, mean over the channels, product, sum). LpNormalization: power, sum, quotient. The
 * backward phase counts twice, as there. */
#include "ops/norm_slices/norm_slices.h"

#include "ops/norm_slices/launch_norm_slices.h"
#include "ops/norm_slices/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>

static const struct zt_attr_spec lp_attrs[] = { { "axis", ZT_ATTR_INT }, { "p", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec lrn_attrs[] = { { "alpha", ZT_ATTR_FLOAT },
                                                 { "beta", ZT_ATTR_FLOAT },
                                                 { "bias", ZT_ATTR_FLOAT },
                                                 { "size", ZT_ATTR_INT, true },
                                                 { 0 } };
static const struct zt_attr_spec mvn_attrs[] = { { "axes", ZT_ATTR_INTS }, { 0 } };

/* The gradient rows of this file: (dy, x) -> dx with the attributes of the forward node. */
static bool emit_grad(struct zt_grad *b, int node, const char *op) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[2] = { zt_grad_out(b, node, 0), n->in[0] }, out;
    zt_emit_node(b, &(struct zt_emission){ op, "ztrain", in, 2, n }, &out, 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

static bool check_pair(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *a = zt_in(g, node, 0), *b = zt_in(g, node, 1);
    return !b || zt_shape_equal(&a->shape, &b->shape) ||
           zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", a->name, b->name);
}

/* ---- LpNormalization ---- */

static bool lp_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_axis_slices slices;
    int p;
    return zt_lp_read(g, node, &slices, &p, err) && check_pair(g, node, err) && zt_infer_first(g, node, err);
}

static double slice_norm(const struct zt_axis_slice *l, int p) {
    double x[ZT_ELEMENT_BLOCK], sum = 0;
    ZT_EACH_BLOCK(l->length, at, count) {
        zt_row_load(l, at, count, x);
        for (int64_t i = 0; i < count; i++)
            sum += p == 1 ? fabs(x[i]) : x[i] * x[i];
    }
    return p == 1 ? sum : sqrt(sum);
}

static void lp_slice(const struct zt_axis_slice *x, const struct zt_axis_slice *y, int p) {
    double block[ZT_ELEMENT_BLOCK], norm = slice_norm(x, p);
    ZT_EACH_BLOCK(x->length, at, count) {
        zt_row_load(x, at, count, block);
        for (int64_t i = 0; i < count; i++)
            block[i] = norm == 0 ? 0 : block[i] / norm;
        zt_row_store(y, at, count, block);
    }
}

static void lp_grad_slice(const struct zt_axis_slice *dy, const struct zt_axis_slice *x, const struct zt_axis_slice *dx,
                          int p) {
    double block[ZT_ELEMENT_BLOCK], d[ZT_ELEMENT_BLOCK], norm = slice_norm(x, p), sum = 0;
    ZT_EACH_BLOCK(x->length, at, count) {
        zt_row_load(x, at, count, block);
        zt_row_load(dy, at, count, d);
        for (int64_t i = 0; i < count; i++)
            sum += norm == 0 ? 0 : d[i] * block[i] / norm;
    }
    ZT_EACH_BLOCK(x->length, at, count) {
        zt_row_load(x, at, count, block);
        zt_row_load(dy, at, count, d);
        for (int64_t i = 0; i < count; i++) {
            double slope = p == 1 ? (block[i] > 0) - (block[i] < 0) : block[i] / norm;
            d[i] = norm == 0 ? 0 : (d[i] - slope * sum) / norm;
        }
        zt_row_store(dx, at, count, d);
    }
}

static bool run_lp(const struct zt_call *call, bool grad, struct zt_err *err) {
    struct zt_axis_slices slices;
    int p;
    if (!zt_lp_read(call->graph, zt_call_node(call), &slices, &p, err))
        return false;
    for (int64_t i = 0; i < slices.outer * slices.inner; i++) {
        struct zt_axis_slice first = { &call->in[0], zt_axis_slices_start(&slices, i), slices.inner, slices.length },
                             second = first;
        struct zt_axis_slice out = first;
        second.view = &call->in[grad];
        out.view = &call->out[0];
        if (grad)
            lp_grad_slice(&first, &second, &out, p);
        else
            lp_slice(&first, &out, p);
    }
    return true;
}

/* A struct zt_launch_lp for other back ends. */
static bool lp_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_axis_slices slices;
    int p;
    if (!zt_lp_read(g, node, &slices, &p, err))
        return false;
    *(struct zt_launch_lp *)to = (struct zt_launch_lp){ .grad = g->nodes[node]->domain[0] != '\0',
                                                        .power = p,
                                                        .outer = slices.outer,
                                                        .length = slices.length,
                                                        .inner = slices.inner };
    return true;
}

static bool lp_ref(const struct zt_call *call, struct zt_err *err) {
    return run_lp(call, false, err);
}

static bool lp_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_lp(call, true, err);
}

static bool lp_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return emit_grad(b, node, "LpNormalizationGrad");
}

/* ---- LRN ---- */

static bool lrn_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_lrn lrn;
    return zt_lrn_read(g, node, &lrn, err) && check_pair(g, node, err) && zt_infer_first(g, node, err);
}

static double at(const struct zt_axis_slice *l, int64_t c) {
    return zt_load_double(l->view->dtype, l->view->data, l->start + c * l->stride);
}

static double lrn_sum(const struct zt_lrn *n, const struct zt_axis_slice *x, int64_t c) {
    double sum = 0;
    int64_t first = c > n->before ? c - n->before : 0;
    for (int64_t j = first; j < x->length && j - c <= n->after; j++)
        sum += at(x, j) * at(x, j);
    return n->bias + n->alpha * sum;
}

static double lrn_slope(const struct zt_lrn *n, const struct zt_axis_slice *dy, const struct zt_axis_slice *x,
                        int64_t c) {
    double sum = 0;
    int64_t first = c > n->after ? c - n->after : 0;
    for (int64_t j = first; j < x->length && j - c <= n->before; j++)
        sum += at(dy, j) * at(x, j) * pow(lrn_sum(n, x, j), -n->beta - 1);
    return at(dy, c) * pow(lrn_sum(n, x, c), -n->beta) - 2 * n->alpha * n->beta * at(x, c) * sum;
}

struct lrn_job {
    const struct zt_call *call;
    struct zt_lrn lrn;
    bool grad;
};

static void lrn_slice(void *arg, int64_t i) {
    const struct lrn_job *j = arg;
    const struct zt_lrn *n = &j->lrn;
    const struct zt_view *out = &j->call->out[0];
    struct zt_axis_slice dy = { &j->call->in[0], zt_axis_slices_start(&n->slices, i), n->slices.inner,
                                n->slices.length },
                         x = dy;
    x.view = &j->call->in[j->grad];
    for (int64_t c = 0; c < x.length; c++) {
        double y = j->grad ? lrn_slope(n, &dy, &x, c) : at(&x, c) * pow(lrn_sum(n, &x, c), -n->beta);
        zt_store_double(out->dtype, out->data, x.start + c * x.stride, y);
    }
}

static bool run_lrn(const struct zt_call *call, bool grad, struct zt_err *err) {
    struct lrn_job j = { .call = call, .grad = grad };
    if (!zt_lrn_read(call->graph, zt_call_node(call), &j.lrn, err))
        return false;
    int64_t slices = j.lrn.slices.outer * j.lrn.slices.inner;
    double work = 16.0 * (double)(slices * j.lrn.slices.length);
    zt_parallel_for(zt_threads_worth(call->threads, work), slices, lrn_slice, &j);
    return true;
}

/* A struct zt_launch_lrn for other back ends. */
static bool lrn_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_lrn n;
    if (!zt_lrn_read(g, node, &n, err))
        return false;
    *(struct zt_launch_lrn *)to = (struct zt_launch_lrn){ .outer = n.slices.outer,
                                                          .channels = n.slices.length,
                                                          .inner = n.slices.inner,
                                                          .before = n.before,
                                                          .after = n.after,
                                                          .alpha = (float)n.alpha,
                                                          .beta = (float)n.beta,
                                                          .bias = (float)n.bias };
    return true;
}

static bool lrn_ref(const struct zt_call *call, struct zt_err *err) {
    return run_lrn(call, false, err);
}

static bool lrn_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_lrn(call, true, err);
}

static bool lrn_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return emit_grad(b, node, "LRNGrad");
}

/* ---- MeanVarianceNormalization ---- */

static bool mvn_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_mvn mvn;
    return zt_mvn_read(g, node, &mvn, err) && check_pair(g, node, err) && zt_infer_first(g, node, err);
}

static int64_t offset(const struct zt_shape *shape, const int64_t *index, const int64_t *step) {
    int64_t sum = 0;
    for (int k = 0; k < shape->rank; k++)
        sum += index[k] * step[k];
    return sum;
}

/* Mean over a group of a(i) * b(i), where b is NULL for 1, each less its mean. */
static double group_mean(const struct zt_mvn *n, int64_t start, const struct zt_view *a, double a_mean,
                         const struct zt_view *b, double b_mean) {
    int64_t index[ZT_MAX_RANK] = { 0 };
    double sum = 0;
    do {
        int64_t i = start + offset(&n->over, index, n->over_step);
        sum +=
            (zt_load_double(a->dtype, a->data, i) - a_mean) * (b ? zt_load_double(b->dtype, b->data, i) - b_mean : 1);
    } while (zt_next_index(&n->over, index));
    return sum / (double)zt_shape_count(&n->over);
}

static void mvn_group(const struct zt_call *call, const struct zt_mvn *n, int64_t start, bool grad) {
    const struct zt_view *x = &call->in[grad], *dy = &call->in[0], *out = &call->out[0];
    double mean = group_mean(n, start, x, 0, NULL, 0), std = sqrt(group_mean(n, start, x, mean, x, mean));
    double d = std + 1e-9, slope_mean = grad ? group_mean(n, start, dy, 0, NULL, 0) : 0;
    double slope = grad ? group_mean(n, start, dy, 0, x, mean) / (std * d * d) : 0;
    int64_t index[ZT_MAX_RANK] = { 0 };
    do {
        int64_t i = start + offset(&n->over, index, n->over_step);
        double centred = zt_load_double(x->dtype, x->data, i) - mean;
        double y = grad ? (zt_load_double(dy->dtype, dy->data, i) - slope_mean) / d - centred * slope : centred / d;
        zt_store_double(out->dtype, out->data, i, y);
    } while (zt_next_index(&n->over, index));
}

static bool run_mvn(const struct zt_call *call, bool grad, struct zt_err *err) {
    struct zt_mvn n;
    if (!zt_mvn_read(call->graph, zt_call_node(call), &n, err))
        return false;
    if (zt_shape_count(&call->in[0].shape) == 0)
        return true;
    int64_t index[ZT_MAX_RANK] = { 0 };
    do
        mvn_group(call, &n, offset(&n.groups, index, n.group_step), grad);
    while (zt_next_index(&n.groups, index));
    return true;
}

/* A struct zt_mvn for other back ends. */
static bool mvn_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_mvn_read(g, node, to, err);
}

static bool mvn_ref(const struct zt_call *call, struct zt_err *err) {
    return run_mvn(call, false, err);
}

static bool mvn_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_mvn(call, true, err);
}

static bool mvn_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return emit_grad(b, node, "MeanVarianceNormalizationGrad");
}

/* ---- rows ---- */

#define ROW .domain = "", ZT_ONE_OUT(1, 1), .in_types = { ZT_ANY_FLOAT }
#define GRAD_ROW                                                                                                       \
    .domain = "ztrain", .since = 1, ZT_ONE_OUT(2, 2), .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .same_type = 1 << 1

const struct zt_op zt_op_lp_normalization = {
    .name = "LpNormalization",
    ROW,
    .since = 1,
    .attrs = lp_attrs,
    .infer = lp_infer,
    .flops_each = 3,
    .grad = lp_grad,
    .kernel = { [ZT_REF] = { .run = lp_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_slices_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(lp, zt_cuda_floats, lp_describe) },
};
const struct zt_op zt_op_lp_normalization_grad = {
    .name = "LpNormalizationGrad",
    GRAD_ROW,
    .attrs = lp_attrs,
    .infer = lp_infer,
    .flops_each = 6,
    .body = zt_lp_normalization_grad_function_body,
    .kernel = { [ZT_REF] = { .run = lp_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_slices_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(lp, zt_cuda_floats, lp_describe) },
};
const struct zt_op zt_op_lrn = {
    .name = "LRN",
    ROW,
    .since = 1,
    .attrs = lrn_attrs,
    .infer = lrn_infer,
    .flops_each = 4,
    .grad = lrn_grad,
    .kernel = { [ZT_REF] = { .run = lrn_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_slices_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(lrn, zt_cuda_floats, lrn_describe) },
};
const struct zt_op zt_op_lrn_grad = {
    .name = "LRNGrad",
    GRAD_ROW,
    .attrs = lrn_attrs,
    .infer = lrn_infer,
    .flops_each = 8,
    .body = zt_lrn_grad_function_body,
    .kernel = { [ZT_REF] = { .run = lrn_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_slices_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(lrn_grad, zt_cuda_floats, lrn_describe) },
};
const struct zt_op zt_op_mean_variance_normalization = {
    .name = "MeanVarianceNormalization",
    ROW,
    .since = 9,
    .attrs = mvn_attrs,
    .infer = mvn_infer,
    .flops_each = 4,
    .grad = mvn_grad,
    .kernel = { [ZT_REF] = { .run = mvn_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_slices_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(mvn, zt_cuda_floats, mvn_describe) },
};
const struct zt_op zt_op_mean_variance_normalization_grad = {
    .name = "MeanVarianceNormalizationGrad",
    GRAD_ROW,
    .attrs = mvn_attrs,
    .infer = mvn_infer,
    .flops_each = 8,
    .body = zt_mean_variance_normalization_grad_function_body,
    .kernel = { [ZT_REF] = { .run = mvn_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_norm_slices_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(mvn, zt_cuda_floats, mvn_describe) },
};
