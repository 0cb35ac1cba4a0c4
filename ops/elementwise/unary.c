/* The rows of functions.inc as operators. */
#include "ops/elementwise/unary.h"

#include "ops/kernel/element_blocks.h"

#include <math.h>
#include <string.h>

static void parameters(const struct zt_node *node, const struct zt_unary_rule *rule, double p[2]) {
    const struct zt_attr_spec *spec = node->op->attrs;
    p[0] = rule->otherwise[0];
    p[1] = rule->otherwise[1];
    for (int i = 0; i < 2 && spec && spec[i].name; i++) {
        const struct zt_attr *a = zt_node_attr(node, spec[i].name);
        if (a)
            p[i] = (double)a->f;
    }
}

static void run_ints(const struct zt_call *call, const struct zt_unary_rule *rule) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    int64_t v[ZT_ELEMENT_BLOCK], count = zt_shape_count(&y->shape);
    bool is_unsigned = zt_dtype_in(x->dtype, ZT_ANY_UNSIGNED);
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block_int(x->dtype, x->data, at, 1, n, v);
        rule->f_int(n, is_unsigned, v, v);
        zt_store_block_int(y->dtype, y->data, at, 1, n, v);
    }
}

bool zt_unary_run(const struct zt_call *call, const struct zt_unary_rule *rule) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    double p[2], v[ZT_ELEMENT_BLOCK];
    if (rule->f_int && zt_dtype_in(x->dtype, ZT_ANY_INT)) {
        run_ints(call, rule);
        return true;
    }
    parameters(call->node, rule, p);
    int64_t count = zt_shape_count(&y->shape);
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block(x->dtype, x->data, at, 1, n, v);
        rule->f(p, n, v, v);
        zt_store_block(y->dtype, y->data, at, 1, n, v);
    }
    return true;
}

bool zt_unary_grad_run(const struct zt_call *call, const struct zt_unary_rule *rule) {
    const struct zt_view *dy = &call->in[0], *saved = &call->in[1], *dx = &call->out[0];
    double p[2], v[ZT_ELEMENT_BLOCK], g[ZT_ELEMENT_BLOCK];
    parameters(call->node, rule, p);
    int64_t count = zt_shape_count(&dx->shape);
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block(dy->dtype, dy->data, at, 1, n, g);
        zt_load_block(saved->dtype, saved->data, at, 1, n, v);
        rule->df(p, n, v, g, g);
        zt_store_block(dx->dtype, dx->data, at, 1, n, g);
    }
    return true;
}

#define AT_ZERO "at_zero"

static bool has_kink(const struct zt_op *op) {
    const struct zt_attr_spec *a = op->attrs;
    while (a && a->name && strcmp(a->name, AT_ZERO) != 0)
        a++;
    return a && a->name;
}

bool zt_unary_grad(struct zt_grad *b, int node, const char *op_type, enum zt_saved saved) {
    int dy = zt_grad_out(b, node, 0); /* first, as it may add nodes, which invalidates pointers to them */
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[2] = { dy, saved == ZT_SAVE_X ? n->in[0] : n->out[0] };
    const bool below = has_kink(n->op) && !zt_grad_is_central(b);
    int dx;
    if (!zt_emit_node(b, &(struct zt_emission){ op_type, "ztrain", in, 2, n }, &dx, 1))
        return true;
    if (below)
        zt_node_set_float(zt_grad_graph(b), zt_grad_graph(b)->values[dx]->producer, AT_ZERO, 0);
    zt_grad_give(b, node, 0, dx);
    return true;
}

/* The ONNX function body of a gradient row: `text` makes dx of g and v, with a and b the first two attributes. */
static bool write_body(struct zt_function_body *body, const struct zt_node *node, const struct zt_unary_rule *rule,
                       const char *text) {
    double p[2];
    parameters(node, rule, p);
    zt_function_body_names(body, "g, v -> dx");
    zt_function_body_number(body, "a", p[0]);
    zt_function_body_number(body, "b", p[1]);
    zt_function_body_add(body, "%s", text);
    return true;
}

/* ---- what the expressions of functions.inc call ---- */

static void abs_int(int64_t n, bool is_unsigned, const int64_t *x, int64_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = is_unsigned || x[i] >= 0 ? x[i] : (int64_t)(0 - (uint64_t)x[i]);
}

static void neg_int(int64_t n, bool is_unsigned, const int64_t *x, int64_t *y) {
    (void)is_unsigned;
    for (int64_t i = 0; i < n; i++)
        y[i] = (int64_t)(0 - (uint64_t)x[i]);
}

/* A derivative that differs on the two sides of 0; w: the part of `above` in that at 0. */
static double at_kink(double x, double above, double below, double w) {
    return x > 0 ? above : x < 0 ? below : w * above + (1 - w) * below;
}

static double clamp01(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double softplus(double x) {
    return log1p(exp(-fabs(x))) + (x < 0 ? 0 : x);
}

/* Mish: y = x tanh(softplus(x)), dy/dx = t + x (1 - t^2) sigmoid(x) with t = tanh(softplus(x)) */
static double mish_slope(double x) {
    double t = tanh(softplus(x));
    return t + x * (1 - t * t) * sigmoid(x);
}

/* Swish: y = x s, dy/dx = s + a x s (1 - s) with s = sigmoid(a x) */
static double swish_slope(double a, double x) {
    double s = sigmoid(a * x);
    return s + a * x * s * (1 - s);
}

static void relu_int(int64_t n, bool is_unsigned, const int64_t *x, int64_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = is_unsigned || x[i] > 0 ? x[i] : 0;
}

/* In ONNX function bodies: w is 1 above a kink at 0, 0 below it, and `at` on it, a number. */
#define KINK(at) "w = 0.5 + 0.5 * Sign(v) + (" at " - 0.5) * (1 - Abs(Sign(v)));"

/* ---- rows NAME and NAMEGrad ---- */

#define ATTRIBUTES(A_NAME, B_NAME)                                                                                     \
    (const struct zt_attr_spec[]) {                                                                                    \
        { A_NAME, ZT_ATTR_FLOAT }, { B_NAME, ZT_ATTR_FLOAT }, {                                                        \
            0                                                                                                          \
        }                                                                                                              \
    }

/* A row of functions.inc. A macro, as it defines functions and rows from one list. */
#define LOOP(...)
#define UNARY(id, NAME, SINCE, TYPES, SAVED, A_NAME, A, B_NAME, B, INTEGERS, TYPED, FLAGS, Y, DX, ZERO, VALUE,         \
              GRAD_INPUTS, GRAD_ZERO, GRAD_VALUE, BODY_TEXT)                                                           \
    ZT_UNARY_LOOPS(id, Y, DX)                                                                                          \
    static const struct zt_unary_rule id##_rule = { { A, B }, id##_f, id##_df, INTEGERS };                             \
    static bool id##_run(const struct zt_call *call, struct zt_err *err) {                                             \
        (void)err;                                                                                                     \
        return zt_unary_run(call, &id##_rule);                                                                         \
    }                                                                                                                  \
    static bool id##_grad_run(const struct zt_call *call, struct zt_err *err) {                                        \
        (void)err;                                                                                                     \
        return zt_unary_grad_run(call, &id##_rule);                                                                    \
    }                                                                                                                  \
    static bool id##_grad(struct zt_grad *b, int node, struct zt_err *err) {                                           \
        (void)err;                                                                                                     \
        return zt_unary_grad(b, node, NAME "Grad", SAVED);                                                             \
    }                                                                                                                  \
    static ZT_FUNCTION_BODY(id##_grad_body) {                                                                          \
        (void)err;                                                                                                     \
        return write_body(b, g->nodes[node], &id##_rule, BODY_TEXT);                                                   \
    }                                                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .flags = ZT_OP_IN_PLACE | ZT_OP_POINTWISE | (FLAGS),                                                           \
        .in_types = { TYPES },                                                                                         \
        .attrs = ATTRIBUTES(A_NAME, B_NAME),                                                                           \
        .infer = zt_infer_first,                                                                                       \
        .grad = id##_grad,                                                                                             \
        .detail = ZT_ELEMENTWISE_LOOPS(id, TYPED),                                                                     \
        .kernel = { [ZT_REF] = { .run = id##_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },    \
    };                                                                                                                 \
    const struct zt_op zt_op_##id##_grad = {                                                                           \
        .name = NAME "Grad",                                                                                           \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(2, 2),                                                                                              \
        .flags = ZT_OP_IN_PLACE | (FLAGS),                                                                             \
        .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },                                                                    \
        .same_type = 1 << 1,                                                                                           \
        .attrs = ATTRIBUTES(A_NAME, B_NAME),                                                                           \
        .infer = zt_infer_first,                                                                                       \
        .body = id##_grad_body,                                                                                        \
        .detail = ZT_ELEMENTWISE_LOOPS(id##_grad, none),                                                               \
        .kernel = { [ZT_REF] = { .run = id##_grad_run },                                                               \
                    [ZT_CPU] = ZT_ELEMENTWISE_CPU,                                                                     \
                    [ZT_CUDA] = ZT_POINTWISE_CUDA },                                                                   \
    };
#include "ops/elementwise/functions.inc"
