/* Activation functions as rows. Selections are written so that NaN flows through them. */
#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/unary.h"

#include <math.h>
#include <string.h>

static const struct zt_attr_spec with_alpha[] = { { "alpha", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec with_alpha_beta[] = { { "alpha", ZT_ATTR_FLOAT }, { "beta", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec with_alpha_gamma[] = { { "alpha", ZT_ATTR_FLOAT }, { "gamma", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec with_bias_lambd[] = { { "bias", ZT_ATTR_FLOAT }, { "lambd", ZT_ATTR_FLOAT }, { 0 } };

/* A slope that differs on the two sides of 0 is their mean at 0, what a central difference finds there. */
static double at_kink(double x, double above, double below) {
    return x > 0 ? above : x < 0 ? below : (above + below) / 2;
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

UNARY(celu, "Celu", 12, ZT_KEEP_X, with_alpha, 1, 0, x > 0 ? x : a * expm1(x / a), v > 0 ? g : g * exp(v / a))
UNARY(elu, "Elu", 6, ZT_KEEP_X, with_alpha, 1, 0, x > 0 ? x : a * expm1(x), at_kink(v, g, g *a *exp(v)))
UNARY(hard_sigmoid, "HardSigmoid", 6, ZT_KEEP_Y, with_alpha_beta, 0.2F, 0.5, clamp01(a *x + b),
      v > 0 && v < 1 ? g * a : 0 * g)
UNARY(hard_swish, "HardSwish", 14, ZT_KEEP_X, NULL, 0, 0, x *clamp01(x / 6 + 0.5),
      g *(v <= -3  ? 0
          : v >= 3 ? 1
                   : v / 3 + 0.5))
UNARY_ROW(leaky_relu, "LeakyRelu", 6, ZT_ANY_FLOAT, ZT_KEEP_X, with_alpha, 0.01F, 0, x < 0 ? a * x : x,
          at_kink(v, g, g *a), NULL, ZT_OP_HALF | ZT_OP_LIGHT)
UNARY(mish, "Mish", 18, ZT_KEEP_X, NULL, 0, 0, x *tanh(softplus(x)), g *mish_slope(v))
UNARY_ROW(relu, "Relu", 6, ZT_ANY_FLOAT | ZT_ANY_SIGNED, ZT_KEEP_Y, NULL, 0, 0, x <= 0 ? 0 : x, v <= 0 ? 0 : g,
          relu_int, ZT_OP_HALF | ZT_OP_LIGHT)
UNARY(selu, "Selu", 6, ZT_KEEP_X, with_alpha_gamma, 1.67326319217681884765625, 1.05070102214813232421875,
      x > 0 ? b * x : b * a * expm1(x), at_kink(v, g *b, g *b *a *exp(v)))
UNARY_ROW(shrink, "Shrink", 9, ZT_ANY_NUMBER, ZT_KEEP_X, with_bias_lambd, 0, 0.5,
          x<-b ? x + a : x> b ? x - a
          : x != x            ? x
                              : 0,
          v<-b || v> b ? g : 0 * g, NULL, ZT_OP_HALF)
UNARY(sigmoid, "Sigmoid", 6, ZT_KEEP_Y, NULL, 0, 0, sigmoid(x), g *v *(1 - v))
UNARY(softplus, "Softplus", 1, ZT_KEEP_X, NULL, 0, 0, softplus(x), g *sigmoid(v))
UNARY(softsign, "Softsign", 1, ZT_KEEP_X, NULL, 0, 0, x / (1 + fabs(x)), g / ((1 + fabs(v)) * (1 + fabs(v))))
UNARY(swish, "Swish", 24, ZT_KEEP_X, with_alpha, 1, 0, x *sigmoid(a *x), g *swish_slope(a, v))
UNARY_ROW(thresholded_relu, "ThresholdedRelu", 10, ZT_ANY_FLOAT, ZT_KEEP_X, with_alpha, 1, 0, x <= a ? 0 : x,
          v <= a ? 0 * g : g, NULL, ZT_OP_HALF | ZT_OP_LIGHT)

/* Gelu has two forms under one name, told apart by a text attribute, so its rows pick the rule when they run.
 *
 *     none   y = x F(x)                                  dy/dx = F(x) + x f(x), F and f of the normal distribution
 *     tanh   y = x (1 + t) / 2, t = tanh(c (x + k x^3))    dy/dx = (1 + t) / 2 + x (1 - t^2) c (1 + 3 k x^2) / 2
 */
static const double gelu_c = 0.79788456080286535588, gelu_k = 0.044715; /* sqrt(2 / pi); k of Hendrycks and Gimpel */

static double gelu_tanh(double x) {
    return tanh(gelu_c * (x + gelu_k * x * x * x));
}

static double gelu_tanh_slope(double x) {
    double t = gelu_tanh(x);
    return (1 + t) / 2 + x * (1 - t * t) * gelu_c * (1 + 3 * gelu_k * x * x) / 2;
}

static double normal_cdf(double x) {
    return 0.5 * erfc(-x * M_SQRT1_2);
}

UNARY_LOOP(gelu_exact, x *normal_cdf(x), g *(normal_cdf(v) + v * exp(-v * v / 2) * (M_2_SQRTPI * M_SQRT1_2 / 2)))
UNARY_LOOP(gelu_approximate, x *(1 + gelu_tanh(x)) / 2, g *gelu_tanh_slope(v))
static const struct zt_unary_rule gelu_rules[2] = { { .f = gelu_exact_f, .df = gelu_exact_df },
                                                    { .f = gelu_approximate_f, .df = gelu_approximate_df } };

static const struct zt_unary_rule *gelu_rule(const struct zt_node *node) {
    return &gelu_rules[strcmp(zt_attr_text(node, "approximate", "none"), "tanh") == 0];
}

static bool gelu_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const char *form = zt_attr_text(g->nodes[node], "approximate", "none");
    if (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)
        return zt_node_fail(g, node, err, "attribute \"approximate\" is \"%s\", wants none or tanh", form);
    return zt_infer_first(g, node, err);
}

static bool gelu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return zt_unary_run(call, gelu_rule(call->node));
}

static bool gelu_grad_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return zt_unary_grad_run(call, gelu_rule(call->node));
}

static bool gelu_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return zt_unary_grad(b, node, "GeluGrad", ZT_KEEP_X);
}

static const struct zt_attr_spec with_approximate[] = { { "approximate", ZT_ATTR_STRING }, { 0 } };

const struct zt_op zt_op_gelu = {
    .name = "Gelu",
    .domain = "",
    .since = 20,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_HALF | ZT_OP_IN_PLACE | ZT_OP_POINTWISE,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = with_approximate,
    .infer = gelu_infer,
    .grad = gelu_grad,
    .kernel = { [ZT_REF] = { .run = gelu_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};

const struct zt_op zt_op_gelu_grad = {
    .name = "GeluGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_HALF | ZT_OP_IN_PLACE,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1,
    .attrs = with_approximate,
    .infer = zt_infer_first,
    .body = zt_gelu_grad_function_body,
    .kernel = { [ZT_REF] = { .run = gelu_grad_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
