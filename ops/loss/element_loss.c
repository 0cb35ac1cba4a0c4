/* Losses that compare element by element: loss = sum of s f(x, t) / sum of s over all elements, where s is the weight
 * of an element, its sample, or what is between (ops/loss/loss.h), and 1 without weights.
 *
 *     SquaredError         f = (x - t)^2                                    df/dx = 2 (x - t)
 *     AbsoluteError        f = |x - t|                                      df/dx = sign(x - t)
 *     SmoothAbsoluteError  f = d^2 / (2 beta) for |d| < beta, else |d| - beta / 2
 *     Huber                f = d^2 / 2 for |d| <= delta, else delta (|d| - delta / 2)
 *     BinaryCrossEntropy   f = max(x, 0) - x t + log(1 + exp(-|x|))         df/dx = 1 / (1 + exp(-x)) - t
 *
 * PyTorch's formulas and mean. ztrain.NAME(x, target[, weight]) -> scalar; ztrain.NAMEGrad(dloss, x, target[, weight])
 * -> dx. When all weigh nothing, loss and gradient are 0. */
#include "ops/loss/launch_element_loss.h"
#include "ops/loss/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/loss/loss.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>

static const struct zt_attr_spec attrs[] = { { "beta", ZT_ATTR_FLOAT }, { "delta", ZT_ATTR_FLOAT }, { 0 } };

typedef double term(double x, double t, double bend); /* bend: beta or delta */

static double sign(double d) {
    return isnan(d) ? d : (d > 0) - (d < 0);
}

static double squared(double x, double t, double bend) {
    (void)bend;
    return (x - t) * (x - t);
}

static double squared_slope(double x, double t, double bend) {
    (void)bend;
    return 2 * (x - t);
}

static double absolute(double x, double t, double bend) {
    (void)bend;
    return fabs(x - t);
}

static double absolute_slope(double x, double t, double bend) {
    (void)bend;
    return sign(x - t);
}

static double smooth(double x, double t, double bend) {
    double d = fabs(x - t);
    return d < bend ? d * d / (2 * bend) : d - bend / 2;
}

static double smooth_slope(double x, double t, double bend) {
    double d = x - t;
    return fabs(d) < bend ? d / bend : sign(d);
}

static double huber(double x, double t, double bend) {
    double d = fabs(x - t);
    return d <= bend ? d * d / 2 : bend * (d - bend / 2);
}

static double huber_slope(double x, double t, double bend) {
    double d = x - t;
    return fabs(d) <= bend ? d : bend * sign(d);
}

static double binary(double x, double t, double bend) {
    (void)bend;
    return (x < 0 ? 0 : x) - x * t + log1p(exp(-fabs(x)));
}

static double binary_slope(double x, double t, double bend) {
    (void)bend;
    return 1 / (1 + exp(-x)) - t;
}

/* ---- shape rules ---- */

static bool check(const struct zt_graph *g, int node, int x, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, x), *t = zt_in(g, node, x + 1);
    char s[ZT_SHAPE_TEXT], u[ZT_SHAPE_TEXT];
    if (!zt_shape_equal(&v->shape, &t->shape))
        return zt_node_fail(g, node, err, "target \"%s\" has shape %s, the prediction \"%s\" %s", t->name,
                            zt_shape_text(&t->shape, s), v->name, zt_shape_text(&v->shape, u));
    return zt_loss_weight_fits(g, node, zt_in(g, node, x + 2), &t->shape, err);
}

static bool loss_infer(struct zt_graph *g, int node, struct zt_err *err) {
    if (!check(g, node, 0, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &(struct zt_shape){ 0 });
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    if (!check(g, node, 1, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 1)->dtype, &zt_in(g, node, 1)->shape);
    return true;
}

/* ---- kernels ---- */

/* in[first], in[first + 1], in[first + 2]: x, target, weights. */
struct job {
    const struct zt_view *x, *target, *weight;
    int64_t rows, width; /* elements in rows of one weight each */
    double bend, total;  /* total: sum of the weights of all elements */
};

static double row_weight(const struct job *j, int64_t row) {
    return j->weight ? zt_load_double(j->weight->dtype, j->weight->data, row) : 1;
}

static struct job job_of(const struct zt_call *call, int first, const char *bend) {
    struct job j = { .x = &call->in[first], .target = &call->in[first + 1] };
    if (first + 2 < call->in_count && call->in[first + 2].data)
        j.weight = &call->in[first + 2];
    j.rows = j.weight ? zt_shape_count(&j.weight->shape) : j.x->shape.rank > 0 ? j.x->shape.dim[0] : 1;
    j.width = j.rows ? zt_shape_count(&j.x->shape) / j.rows : 0;
    j.bend = bend ? (double)zt_attr_float(call->node, bend, 1) : 1;
    for (int64_t row = 0; row < j.rows; row++)
        j.total += row_weight(&j, row) * (double)j.width;
    return j;
}

static double row_sum(const struct job *j, int64_t row, term *f) {
    double x[ZT_ELEMENT_BLOCK], t[ZT_ELEMENT_BLOCK], sum = 0;
    for (int64_t at = 0; at < j->width; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, j->width - at), from = row * j->width + at;
        zt_load_block(j->x->dtype, j->x->data, from, 1, count, x);
        zt_load_block(j->target->dtype, j->target->data, from, 1, count, t);
        for (int64_t i = 0; i < count; i++)
            sum += f(x[i], t[i], j->bend);
    }
    return sum;
}

static bool run_loss(const struct zt_call *call, term *f, const char *bend) {
    struct job j = job_of(call, 0, bend);
    double sum = 0;
    for (int64_t row = 0; row < j.rows; row++) {
        double weight = row_weight(&j, row);
        if (weight != 0) /* a padding row may hold anything */
            sum += weight * row_sum(&j, row, f);
    }
    zt_store_double(call->out[0].dtype, call->out[0].data, 0, j.total != 0 ? sum / j.total : 0);
    return true;
}

static void grad_row(const struct zt_call *call, const struct job *j, int64_t row, double factor, term *slope) {
    double x[ZT_ELEMENT_BLOCK], t[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < j->width; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, j->width - at), from = row * j->width + at;
        zt_load_block(j->x->dtype, j->x->data, from, 1, count, x);
        zt_load_block(j->target->dtype, j->target->data, from, 1, count, t);
        for (int64_t i = 0; i < count; i++)
            x[i] = factor != 0 ? factor * slope(x[i], t[i], j->bend) : 0;
        zt_store_block(call->out[0].dtype, call->out[0].data, from, 1, count, x);
    }
}

struct gradient {
    const struct zt_call *call;
    struct job j;
    double dloss;
    term *slope;
};

static void run_grad_row(void *arg, int64_t row) {
    const struct gradient *g = arg;
    const struct job *j = &g->j;
    grad_row(g->call, j, row, j->total != 0 ? g->dloss * row_weight(j, row) / j->total : 0, g->slope);
}

static bool run_grad(const struct zt_call *call, term *slope, const char *bend) {
    struct gradient g = { .call = call, .j = job_of(call, 1, bend), .slope = slope };
    g.dloss = zt_load_double(call->in[0].dtype, call->in[0].data, 0);
    zt_parallel_for(zt_threads_worth(call->threads, 4.0 * (double)(g.j.rows * g.j.width)), g.j.rows, run_grad_row, &g);
    return true;
}

/* A struct zt_launch_element_loss without addresses, for other back ends. */
static bool describe(const struct zt_graph *g, int node, int first, enum zt_launch_term which, const char *bend,
                     struct zt_launch_element_loss *to) {
    const struct zt_value *x = zt_in(g, node, first), *weight = zt_in(g, node, first + 2);
    const int64_t count = zt_shape_count(&x->shape), rows = weight              ? zt_shape_count(&weight->shape)
                                                            : x->shape.rank > 0 ? x->shape.dim[0]
                                                                                : 1;
    *to = (struct zt_launch_element_loss){ .term = which,
                                           .dtype = x->dtype,
                                           .target_dtype = zt_in(g, node, first + 1)->dtype,
                                           .weight_dtype = weight ? weight->dtype : ZT_FLOAT,
                                           .dloss_dtype = zt_in(g, node, 0)->dtype,
                                           .rows = rows,
                                           .width = rows ? count / rows : 0,
                                           .bend = bend ? zt_attr_float(g->nodes[node], bend, 1) : 1 };
    return true;
}

static bool emit_grad(struct zt_grad *b, int node, const char *op) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[4] = { zt_grad_out(b, node, 0), n->in[0], n->in[1], n->in_count > 2 ? n->in[2] : -1 }, out;
    zt_emit_node(b, &(struct zt_emission){ op, "ztrain", in, n->in_count + 1, n }, &out, 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

/* The two rows of a loss. */
static bool takes_cuda(const struct zt_graph *g, int node) {
    const unsigned targets =
        ZT_CUDA_FLOATS | ZT_BIT(ZT_DOUBLE) | ZT_BIT(ZT_BOOL) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64);
    const int target = g->nodes[node]->op->max_in - 2; /* behind x: the gradient has one input more */
    bool takes = true;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        takes &= !zt_in(g, node, i) || zt_dtype_in(zt_in(g, node, i)->dtype, i == target ? targets : ZT_CUDA_FLOATS);
    return takes;
}

#define LOSS(id, NAME, f, bend, TERM)                                                                                  \
    static bool f##_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {                       \
        (void)err;                                                                                                     \
        return describe(g, node, 0, TERM, bend, to);                                                                   \
    }                                                                                                                  \
    static bool f##_grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {                  \
        (void)err;                                                                                                     \
        return describe(g, node, 1, TERM, bend, to);                                                                   \
    }                                                                                                                  \
    static bool f##_ref(const struct zt_call *call, struct zt_err *err) {                                              \
        (void)err;                                                                                                     \
        return run_loss(call, f, bend);                                                                                \
    }                                                                                                                  \
    static bool f##_grad_ref(const struct zt_call *call, struct zt_err *err) {                                         \
        (void)err;                                                                                                     \
        return run_grad(call, f##_slope, bend);                                                                        \
    }                                                                                                                  \
    static bool f##_grad(struct zt_grad *b, int node, struct zt_err *err) {                                            \
        (void)err;                                                                                                     \
        return emit_grad(b, node, NAME "Grad");                                                                        \
    }                                                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        .min_in = 2,                                                                                                   \
        .max_in = 3,                                                                                                   \
        .min_out = 1,                                                                                                  \
        .max_out = 1,                                                                                                  \
        .in_types = { ZT_ANY_FLOAT, ZT_ANY_TYPE, ZT_ANY_FLOAT },                                                       \
        .no_grad_in = 1 << 1 | 1 << 2,                                                                                 \
        .attrs = attrs,                                                                                                \
        .infer = loss_infer,                                                                                           \
        .grad = f##_grad,                                                                                              \
        .kernel = { [ZT_REF] = { .run = f##_ref },                                                                     \
                    [ZT_CPU] = ZT_ON_CPU(zt_element_loss_cpu),                                                         \
                    [ZT_CUDA] = ZT_CUDA_AS(element_loss, takes_cuda, f##_describe) },                                  \
    };                                                                                                                 \
    const struct zt_op zt_op_##id##_grad = {                                                                           \
        .name = NAME "Grad",                                                                                           \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        .min_in = 3,                                                                                                   \
        .max_in = 4,                                                                                                   \
        .min_out = 1,                                                                                                  \
        .max_out = 1,                                                                                                  \
        .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_TYPE, ZT_ANY_FLOAT },                                         \
        .attrs = attrs,                                                                                                \
        .infer = grad_infer,                                                                                           \
        .kernel = { [ZT_REF] = { .run = f##_grad_ref },                                                                \
                    [ZT_CPU] = ZT_ON_CPU(zt_element_loss_grad_cpu),                                                    \
                    [ZT_CUDA] = ZT_CUDA_AS(element_loss_grad, takes_cuda, f##_grad_describe) },                        \
    };

LOSS(squared_error, "SquaredError", squared, NULL, ZT_TERM_SQUARED)
LOSS(absolute_error, "AbsoluteError", absolute, NULL, ZT_TERM_ABSOLUTE)
LOSS(smooth_absolute_error, "SmoothAbsoluteError", smooth, "beta", ZT_TERM_SMOOTH)
LOSS(huber, "Huber", huber, "delta", ZT_TERM_HUBER)
LOSS(binary_cross_entropy, "BinaryCrossEntropy", binary, NULL, ZT_TERM_BINARY)
