/* The optimizers of domain ai.onnx.preview.training, one step as a node. Inputs: the rate R, the count of updates T,
 * then n tensors X, their n gradients G, and n tensors of each state; outputs: n new X, then n of each new state. All
 * tensors of one X have its shape. With c = norm_coefficient and G' = c X + G:
 *
 *     Adam      V' = a V + (1 - a) G'    H' = b H + (1 - b) G'^2    r = R sqrt(1 - b^T) / (1 - a^T), R where T is 0
 *               X' = (1 - norm_coefficient_post) (X - r V' / (sqrt H' + epsilon))
 *     Adagrad   H' = H + G'^2            X' = X - R / (1 + T decay_factor) G' / (sqrt H' + epsilon)
 *     Momentum  V' = a V + b' G'         b' = b, 1 where T is 0
 *               X' = X - R V', or in mode nesterov X - R (G' + a V')
 *
 * They have no gradient: a graph that trains does not pass through its optimizer. */
#include "ops/training/kernels.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <math.h>
#include <string.h>

enum { RATE, COUNT, TENSORS, MOST_STATES = 2, MOST_OUTPUTS = 1 << 16 };

/* Factors of all elements of a tensor. */
struct factors {
    double rate, alpha, beta, epsilon, norm, post; /* rate: adjusted to the count; post: 1 - norm_coefficient_post */
    bool nesterov;
};

struct optimizer {
    int states;
    bool (*read)(const struct zt_graph *g, int node,
                 struct zt_err *err); /* checks attributes; NULL: nothing to check */
    void (*factors)(const struct zt_node *n, double rate, int64_t count, struct factors *to);
    /* g: c X + G. Sets x and the states to the new ones. */
    void (*step)(const struct factors *f, int64_t count, const double *g, double *x, double *state[MOST_STATES]);
};

static double number(const struct zt_node *n, const char *name, float otherwise) {
    return (double)zt_attr_float(n, name, otherwise);
}

/* ---- rules ---- */

static void adam_factors(const struct zt_node *n, double rate, int64_t count, struct factors *f) {
    f->alpha = number(n, "alpha", 0.9F);
    f->beta = number(n, "beta", 0.999F);
    f->epsilon = number(n, "epsilon", 1e-6F);
    f->post = 1 - number(n, "norm_coefficient_post", 0);
    f->rate = rate;
    if (count > 0)
        f->rate *= sqrt(1 - pow(f->beta, (double)count)) / (1 - pow(f->alpha, (double)count));
}

static void adam_step(const struct factors *f, int64_t count, const double *g, double *x, double *state[MOST_STATES]) {
    double *v = state[0], *h = state[1];
    for (int64_t i = 0; i < count; i++) {
        v[i] = f->alpha * v[i] + (1 - f->alpha) * g[i];
        h[i] = f->beta * h[i] + (1 - f->beta) * g[i] * g[i];
        x[i] = f->post * (x[i] - f->rate * v[i] / (sqrt(h[i]) + f->epsilon));
    }
}

static void adagrad_factors(const struct zt_node *n, double rate, int64_t count, struct factors *f) {
    f->epsilon = number(n, "epsilon", 1e-6F);
    f->rate = rate / (1 + (double)count * number(n, "decay_factor", 0));
}

static void adagrad_step(const struct factors *f, int64_t count, const double *g, double *x,
                         double *state[MOST_STATES]) {
    double *h = state[0];
    for (int64_t i = 0; i < count; i++) {
        h[i] += g[i] * g[i];
        x[i] -= f->rate * g[i] / (sqrt(h[i]) + f->epsilon);
    }
}

static bool momentum_read(const struct zt_graph *g, int node, struct zt_err *err) {
    const char *mode = zt_attr_text(g->nodes[node], "mode", "");
    return strcmp(mode, "nesterov") == 0 || strcmp(mode, "standard") == 0 ||
           zt_node_fail(g, node, err, "mode is \"%s\", wants nesterov or standard", mode);
}

static void momentum_factors(const struct zt_node *n, double rate, int64_t count, struct factors *f) {
    f->alpha = number(n, "alpha", 0);
    f->beta = count > 0 ? number(n, "beta", 0) : 1;
    f->nesterov = strcmp(zt_attr_text(n, "mode", ""), "nesterov") == 0;
    f->rate = rate;
}

static void momentum_step(const struct factors *f, int64_t count, const double *g, double *x,
                          double *state[MOST_STATES]) {
    double *v = state[0];
    for (int64_t i = 0; i < count; i++) {
        v[i] = f->alpha * v[i] + f->beta * g[i];
        x[i] -= f->rate * (f->nesterov ? g[i] + f->alpha * v[i] : v[i]);
    }
}

/* ---- shapes ---- */

static const struct optimizer *optimizer_of(const struct zt_graph *g, int node) {
    return g->nodes[node]->op->detail;
}

/* Number of tensors that the node optimizes. */
static int tensors_of(const struct zt_node *n, const struct optimizer *o) {
    return (n->in_count - TENSORS) / (2 + o->states);
}

static bool check_scalar(const struct zt_graph *g, int node, int in, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    char text[ZT_SHAPE_TEXT];
    return zt_shape_count(&v->shape) == 1 ||
           zt_node_fail(g, node, err, "\"%s\" has shape %s, wants one number", v->name, zt_shape_text(&v->shape, text));
}

/* Gradient and states of tensor i have its type and shape. */
static bool check_tensor(const struct zt_graph *g, int node, int i, int tensors, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, TENSORS + i), *first = zt_in(g, node, TENSORS);
    char text[ZT_SHAPE_TEXT];
    for (int in = TENSORS + i; in < g->nodes[node]->in_count; in += tensors) {
        const struct zt_value *v = zt_in(g, node, in);
        if (!v)
            return zt_node_fail(g, node, err, "input %d is missing", in);
        if (v->dtype != first->dtype)
            return zt_node_fail(g, node, err, "\"%s\" is %s and \"%s\" %s, wants one type", v->name,
                                zt_dtype_name(v->dtype), first->name, zt_dtype_name(first->dtype));
        if (!zt_shape_equal(&v->shape, &x->shape))
            return zt_node_fail(g, node, err, "\"%s\" has shape %s, wants that of \"%s\"", v->name,
                                zt_shape_text(&v->shape, text), x->name);
    }
    return true;
}

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct optimizer *o = optimizer_of(g, node);
    const int tensors = tensors_of(n, o);
    if (tensors < 1 || n->in_count != TENSORS + tensors * (2 + o->states) || n->out_count != tensors * (1 + o->states))
        return zt_node_fail(g, node, err,
                            "has %d inputs and %d outputs, wants 2 and %d a tensor, and %d outputs a tensor",
                            n->in_count, n->out_count, 2 + o->states, 1 + o->states);
    if (!check_scalar(g, node, RATE, err) || !check_scalar(g, node, COUNT, err) || (o->read && !o->read(g, node, err)))
        return false;
    for (int i = 0; i < tensors; i++)
        if (!zt_in(g, node, TENSORS + i))
            return zt_node_fail(g, node, err, "input %d is missing", TENSORS + i);
        else if (!check_tensor(g, node, i, tensors, err))
            return false;
    for (int k = 0; k < n->out_count; k++) {
        const struct zt_value *x = zt_in(g, node, TENSORS + k % tensors);
        zt_set_out(g, node, k, x->dtype, &x->shape);
    }
    return true;
}

/* ---- reference kernel ---- */

static void load(const struct zt_call *call, int in, int64_t at, int64_t count, double *to) {
    zt_load_block(call->in[in].dtype, call->in[in].data, at, 1, count, to);
}

static void store(const struct zt_call *call, int out, int64_t at, int64_t count, const double *from) {
    if (call->out[out].data)
        zt_store_block(call->out[out].dtype, call->out[out].data, at, 1, count, from);
}

static void update(const struct zt_call *call, const struct optimizer *o, const struct factors *f, int i) {
    const int tensors = tensors_of(call->node, o);
    const int64_t total = zt_shape_count(&call->in[TENSORS + i].shape);
    double x[ZT_ELEMENT_BLOCK], g[ZT_ELEMENT_BLOCK], states[MOST_STATES][ZT_ELEMENT_BLOCK];
    double *state[MOST_STATES] = { states[0], states[1] };
    for (int64_t at = 0; at < total; at += ZT_ELEMENT_BLOCK) {
        const int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, total - at);
        load(call, TENSORS + i, at, count, x);
        load(call, TENSORS + tensors + i, at, count, g);
        for (int k = 0; k < o->states; k++)
            load(call, TENSORS + (2 + k) * tensors + i, at, count, state[k]);
        for (int64_t e = 0; e < count; e++)
            g[e] += f->norm * x[e];
        o->step(f, count, g, x, state);
        store(call, i, at, count, x);
        for (int k = 0; k < o->states; k++)
            store(call, (1 + k) * tensors + i, at, count, state[k]);
    }
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct optimizer *o = optimizer_of(call->graph, zt_call_node(call));
    struct factors f = { .norm = number(call->node, "norm_coefficient", 0) };
    const double rate = zt_load_double(call->in[RATE].dtype, call->in[RATE].data, 0);
    o->factors(call->node, rate, zt_load_int(call->in[COUNT].dtype, call->in[COUNT].data, 0), &f);
    for (int i = 0; i < tensors_of(call->node, o); i++)
        update(call, o, &f, i);
    return true;
}

/* ---- rows ---- */

#define DOMAIN "ai.onnx.preview.training"
#define FLOATS (ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_DOUBLE))

#define OPTIMIZER_ROW(id, NAME, STATES)                                                                                \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = DOMAIN,                                                                                              \
        .since = 1,                                                                                                    \
        .min_in = TENSORS + 2 + (STATES),                                                                              \
        .min_out = 1 + (STATES),                                                                                       \
        .max_out = MOST_OUTPUTS,                                                                                       \
        .flags = ZT_OP_VARIADIC,                                                                                       \
        .in_types = { FLOATS, ZT_BIT(ZT_INT64), FLOATS },                                                              \
        .attrs = id##_attrs,                                                                                           \
        .infer = infer,                                                                                                \
        .detail = &id,                                                                                                 \
        .kernel = { [ZT_REF] = { .run = run } },                                                                       \
    };

static const struct zt_attr_spec adam_attrs[] = { { "alpha", ZT_ATTR_FLOAT },
                                                  { "beta", ZT_ATTR_FLOAT },
                                                  { "epsilon", ZT_ATTR_FLOAT },
                                                  { "norm_coefficient", ZT_ATTR_FLOAT },
                                                  { "norm_coefficient_post", ZT_ATTR_FLOAT },
                                                  { 0 } };
static const struct optimizer adam = { .states = 2, .factors = adam_factors, .step = adam_step };
OPTIMIZER_ROW(adam, "Adam", 2)

static const struct zt_attr_spec adagrad_attrs[] = {
    { "decay_factor", ZT_ATTR_FLOAT }, { "epsilon", ZT_ATTR_FLOAT }, { "norm_coefficient", ZT_ATTR_FLOAT }, { 0 }
};
static const struct optimizer adagrad = { .states = 1, .factors = adagrad_factors, .step = adagrad_step };
OPTIMIZER_ROW(adagrad, "Adagrad", 1)

static const struct zt_attr_spec momentum_attrs[] = { { "alpha", ZT_ATTR_FLOAT, true },
                                                      { "beta", ZT_ATTR_FLOAT, true },
                                                      { "mode", ZT_ATTR_STRING, true },
                                                      { "norm_coefficient", ZT_ATTR_FLOAT, true },
                                                      { 0 } };
static const struct optimizer momentum = {
    .states = 1, .read = momentum_read, .factors = momentum_factors, .step = momentum_step
};
OPTIMIZER_ROW(momentum, "Momentum", 1)
