/* Gelu: two functions under one name. A text attribute chooses, so the rows choose the rule when they run.
 *
 *     none   y = x F(x)                                  dy/dx = F(x) + x f(x), F and f of the normal distribution
 *     tanh   y = x (1 + t) / 2, t = tanh(c (x + k x^3))    dy/dx = (1 + t) / 2 + x (1 - t^2) c (1 + 3 k x^2) / 2
 */
#include "ops/elementwise/unary.h"

#include <math.h>
#include <string.h>

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

ZT_UNARY_LOOPS(gelu_exact, x *normal_cdf(x), g *(normal_cdf(v) + v * exp(-v * v / 2) * (M_2_SQRTPI * M_SQRT1_2 / 2)))
ZT_UNARY_LOOPS(gelu_approximate, x *(1 + gelu_tanh(x)) / 2, g *gelu_tanh_slope(v))
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
    return zt_unary_grad(b, node, "GeluGrad", ZT_SAVE_X);
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
    .detail = ZT_ELEMENTWISE_LOOPS(gelu, none),
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
    .detail = ZT_ELEMENTWISE_LOOPS(gelu_grad, none),
    .kernel = { [ZT_REF] = { .run = gelu_grad_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
