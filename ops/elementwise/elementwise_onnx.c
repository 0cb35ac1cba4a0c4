/* Derivatives of elementwise functions: dx from g, the gradient of the result, and v, the argument or the result as the
 * gradient row keeps it; a and b are the first two attributes. */
#include "ops/elementwise/kernels.h"

#include "graph/ir/op.h"

#include <string.h>

struct text {
    const char *op_type, *says;
};

/* w is 1 above a kink at 0, 0 below it, and a half on it. */
#define KINK "w = 0.5 + 0.5 * Sign(v);"

static const struct text texts[] = {
    { "AbsGrad", "dx = g * Sign(v)" },
    { "AcosGrad", "dx = -g / Sqrt(1 - v * v)" },
    { "AcoshGrad", "dx = g / Sqrt(v * v - 1)" },
    { "AsinGrad", "dx = g / Sqrt(1 - v * v)" },
    { "AsinhGrad", "dx = g / Sqrt(v * v + 1)" },
    { "AtanGrad", "dx = g / (1 + v * v)" },
    { "AtanhGrad", "dx = g / (1 - v * v)" },
    { "CeluGrad", "dx = Where(Greater(v, 0), g, g * Exp(v / a))" },
    { "CosGrad", "dx = -g * Sin(v)" },
    { "CoshGrad", "dx = g * (Exp(v) - Exp(-v)) / 2" },
    { "EluGrad", KINK "dx = g * (w + (1 - w) * a * Exp(Min(v, 0)))" },
    { "ErfGrad", "dx = g * 1.1283791670955126 * Exp(-v * v)" },
    { "ExpGrad", "dx = g * v" },
    { "HardSigmoidGrad", "dx = Where(And(Greater(v, 0), Less(v, 1)), g * a, 0 * g)" },
    { "HardSwishGrad", "dx = g * Where(LessOrEqual(v, -3), 0, Where(GreaterOrEqual(v, 3), 1, v / 3 + 0.5))" },
    { "LeakyReluGrad", KINK "dx = g * (w + (1 - w) * a)" },
    { "LogGrad", "dx = g / v" },
    { "MishGrad", "t = Tanh(Softplus(v)); dx = g * (t + v * (1 - t * t) * Sigmoid(v))" },
    { "NegGrad", "dx = -g" },
    { "ReciprocalGrad", "dx = -g * v * v" },
    { "ReluGrad", "dx = Where(LessOrEqual(v, 0), 0, g)" },
    { "SeluGrad", KINK "dx = g * b * (w + (1 - w) * a * Exp(Min(v, 0)))" },
    { "ShrinkGrad", "dx = Where(Or(Less(v, -b), Greater(v, b)), g, 0 * g)" },
    { "SigmoidGrad", "dx = g * v * (1 - v)" },
    { "SinGrad", "dx = g * Cos(v)" },
    { "SinhGrad", "dx = g * (Exp(v) + Exp(-v)) / 2" },
    { "SoftplusGrad", "dx = g * Sigmoid(v)" },
    { "SoftsignGrad", "d = 1 + Abs(v); dx = g / (d * d)" },
    { "SqrtGrad", "dx = g / (2 * v)" },
    { "SwishGrad", "s = Sigmoid(a * v); dx = g * (s + a * v * s * (1 - s))" },
    { "TanGrad", "dx = g * (1 + v * v)" },
    { "TanhGrad", "dx = g * (1 - v * v)" },
    { "ThresholdedReluGrad", "dx = Where(LessOrEqual(v, a), 0 * g, g)" },
    { 0 },
};

bool zt_unary_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                            const double parameters[2]) {
    const struct text *t = texts;
    while (t->op_type && strcmp(t->op_type, g->nodes[node]->op_type) != 0)
        t++;
    zt_function_body_names(b, "g, v -> dx");
    zt_function_body_number(b, "a", parameters[0]);
    zt_function_body_number(b, "b", parameters[1]);
    zt_function_body_add(b, "%s", t->op_type ? t->says : "");
    return true;
}

/* sqrt(2 / pi) and sqrt(1 / 2 pi) */
bool zt_gelu_grad_function_body(struct zt_function_body *b, const struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    zt_function_body_names(b, "g, v -> dx");
    if (strcmp(zt_attr_text(g->nodes[node], "approximate", "none"), "tanh") == 0)
        zt_function_body_add(b,
                             "c = 0.79788456080286536; k = 0.044715; t = Tanh(c * (v + k * v * v * v));"
                             "dx = g * ((1 + t) + v * (1 - t * t) * c * (1 + 3 * k * v * v)) / 2");
    else
        zt_function_body_add(b, "dx = g * ((1 + Erf(v / Sqrt(2))) / 2 + v * Exp(-v * v / 2) * 0.39894228040143268)");
    return true;
}

bool zt_clip_grad_function_body(struct zt_function_body *b, const struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = g->nodes[node];
    const struct zt_attr *low = zt_node_attr(n, "min"), *high = zt_node_attr(n, "max");
    zt_function_body_names(b, "dy, x, low, high -> dx");
    if (low)
        zt_function_body_number(b, "low", (double)low->f);
    if (high)
        zt_function_body_number(b, "high", (double)high->f);
    zt_function_body_add(b, "dx = dy");
    if (low || zt_in(g, node, 2))
        zt_function_body_add(b, "dx = Where(Less(x, low), 0, dx)");
    if (high || zt_in(g, node, 3))
        zt_function_body_add(b, "dx = Where(Greater(x, high), 0, dx)");
    return true;
}

ZT_FUNCTION_BODY(zt_clip_old_function_body) {
    (void)err;
    const struct zt_attr *low = zt_node_attr(g->nodes[node], "min"), *high = zt_node_attr(g->nodes[node], "max");
    zt_function_body_names(b, "x -> y");
    zt_function_body_number(b, "low", low ? (double)low->f : 0);
    zt_function_body_number(b, "high", high ? (double)high->f : 0);
    zt_function_body_add(b, "y = Clip(x, %s, %s)", low ? "low" : "_", high ? "high" : "_");
    return true;
}

/* ---- powers: the exponent may have another type ---- */

static void say_power(struct zt_function_body *b, const char *formula) {
    const char *type = zt_dtype_name(zt_out(b->g, b->node, 0)->dtype);
    bool is_float = zt_dtype_in(zt_out(b->g, b->node, 0)->dtype, ZT_ANY_FLOAT);
    zt_function_body_names(b, "x, e -> y");
    zt_function_body_add(b, "x = Cast<to=T>(x); e = Cast<to=T>(e); %s", formula);
    if (!is_float)
        zt_function_body_add(b, "y = Cast<to=%s>(y)", type);
}

ZT_FUNCTION_BODY(zt_pow_slope_function_body) {
    (void)g, (void)node, (void)err;
    say_power(b, "y = Where(Equal(e, 0), 0, e * Pow(x, e - 1))");
    return true;
}

ZT_FUNCTION_BODY(zt_pow_log_function_body) {
    (void)g, (void)node, (void)err;
    say_power(b, "y = Where(And(Equal(x, 0), GreaterOrEqual(e, 0)), 0, Pow(x, e) * Log(x))");
    return true;
}
