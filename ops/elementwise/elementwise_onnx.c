/* ONNX function bodies of Gelu's and Clip's gradients, of Clip before opset 11, and of the powers that the gradient of
 * Pow multiplies by. Those of functions.inc are there. */
#include "ops/elementwise/kernels.h"

#include "graph/ir/op.h"

#include <string.h>

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

static void write_power(struct zt_function_body *b, const char *formula) {
    const char *type = zt_dtype_name(zt_out(b->g, b->node, 0)->dtype);
    bool is_float = zt_dtype_in(zt_out(b->g, b->node, 0)->dtype, ZT_ANY_FLOAT);
    zt_function_body_names(b, "x, e -> y");
    zt_function_body_add(b, "x = Cast<to=T>(x); e = Cast<to=T>(e); %s", formula);
    if (!is_float)
        zt_function_body_add(b, "y = Cast<to=%s>(y)", type);
}

ZT_FUNCTION_BODY(zt_pow_slope_function_body) {
    (void)g, (void)node, (void)err;
    write_power(b, "y = Where(Equal(e, 0), 0, e * Pow(x, e - 1))");
    return true;
}

ZT_FUNCTION_BODY(zt_pow_log_function_body) {
    (void)g, (void)node, (void)err;
    write_power(b, "y = Where(And(Equal(x, 0), GreaterOrEqual(e, 0)), 0, Pow(x, e) * Log(x))");
    return true;
}
