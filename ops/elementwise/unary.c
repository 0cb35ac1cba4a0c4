/* Elementwise functions of one input: mathematics. Activations are in activation.c, predicates in predicate.c. */
#include "ops/elementwise/unary.h"

#include "ops/kernel/element_blocks.h"

#include <math.h>

void zt_unary_parameters(const struct zt_node *node, const struct zt_unary_rule *rule, double p[2]) {
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
    zt_unary_parameters(call->node, rule, p);
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
    const struct zt_view *dy = &call->in[0], *kept = &call->in[1], *dx = &call->out[0];
    double p[2], v[ZT_ELEMENT_BLOCK], g[ZT_ELEMENT_BLOCK];
    zt_unary_parameters(call->node, rule, p);
    int64_t count = zt_shape_count(&dx->shape);
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block(dy->dtype, dy->data, at, 1, n, g);
        zt_load_block(kept->dtype, kept->data, at, 1, n, v);
        rule->df(p, n, v, g, g);
        zt_store_block(dx->dtype, dx->data, at, 1, n, g);
    }
    return true;
}

bool zt_unary_grad(struct zt_grad *b, int node, const char *op_type, enum zt_keep keep) {
    int dy = zt_grad_out(b, node, 0); /* first: it may add nodes, which moves them */
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[2] = { dy, keep == ZT_KEEP_X ? n->in[0] : n->out[0] };
    int dx;
    zt_emit_node(b, &(struct zt_emission){ op_type, "ztrain", in, 2, n }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    return true;
}

static void abs_int(int64_t n, bool is_unsigned, const int64_t *x, int64_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = is_unsigned || x[i] >= 0 ? x[i] : (int64_t)(0 - (uint64_t)x[i]);
}

static void neg_int(int64_t n, bool is_unsigned, const int64_t *x, int64_t *y) {
    (void)is_unsigned;
    for (int64_t i = 0; i < n; i++)
        y[i] = (int64_t)(0 - (uint64_t)x[i]);
}

UNARY_ROW(abs, "Abs", 6, ZT_ANY_NUMBER, ZT_KEEP_X, NULL, 0, 0, fabs(x),
          v > 0   ? g
          : v < 0 ? -g
                  : 0 * g,
          abs_int, ZT_OP_HALF | ZT_OP_LIGHT)
UNARY(acos, "Acos", 7, ZT_KEEP_X, NULL, 0, 0, acos(x), -g / sqrt(1 - v * v))
UNARY(acosh, "Acosh", 9, ZT_KEEP_X, NULL, 0, 0, acosh(x), g / sqrt(v * v - 1))
UNARY(asin, "Asin", 7, ZT_KEEP_X, NULL, 0, 0, asin(x), g / sqrt(1 - v * v))
UNARY(asinh, "Asinh", 9, ZT_KEEP_X, NULL, 0, 0, asinh(x), g / sqrt(v * v + 1))
UNARY(atan, "Atan", 7, ZT_KEEP_X, NULL, 0, 0, atan(x), g / (1 + v * v))
UNARY(atanh, "Atanh", 9, ZT_KEEP_X, NULL, 0, 0, atanh(x), g / (1 - v * v))
UNARY(cos, "Cos", 7, ZT_KEEP_X, NULL, 0, 0, cos(x), -g *sin(v))
UNARY(cosh, "Cosh", 9, ZT_KEEP_X, NULL, 0, 0, cosh(x), g *sinh(v))
UNARY_ROW(erf, "Erf", 9, ZT_ANY_NUMBER, ZT_KEEP_X, NULL, 0, 0, erf(x), g *M_2_SQRTPI *exp(-v *v), NULL, ZT_OP_HALF)
UNARY(exp, "Exp", 6, ZT_KEEP_Y, NULL, 0, 0, exp(x), g *v)
UNARY(log, "Log", 6, ZT_KEEP_X, NULL, 0, 0, log(x), g / v)
UNARY_ROW(neg, "Neg", 6, ZT_ANY_FLOAT | ZT_ANY_SIGNED, ZT_KEEP_X, NULL, 0, 0, -x, -g, neg_int, ZT_OP_HALF | ZT_OP_LIGHT)
UNARY(reciprocal, "Reciprocal", 6, ZT_KEEP_Y, NULL, 0, 0, 1 / x, -g *v *v)
UNARY(sin, "Sin", 7, ZT_KEEP_X, NULL, 0, 0, sin(x), g *cos(v))
UNARY(sinh, "Sinh", 9, ZT_KEEP_X, NULL, 0, 0, sinh(x), g *cosh(v))
UNARY(sqrt, "Sqrt", 6, ZT_KEEP_Y, NULL, 0, 0, sqrt(x), g / (2 * v))
UNARY(tan, "Tan", 7, ZT_KEEP_Y, NULL, 0, 0, tan(x), g *(1 + v * v))
UNARY(tanh, "Tanh", 6, ZT_KEEP_Y, NULL, 0, 0, tanh(x), g *(1 - v * v))
