/* Activations that exporters write as several nodes.
 *
 *     gelu          x (1 + erf(x / sqrt 2)) / 2, and x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
 *     swish         x sigmoid(a x)
 *     hard_swish    x max(0, min(1, x / 6 + 1/2))
 *     mish          x tanh(softplus(x))
 *     softplus      log(1 + exp x), and softplus where x is no larger than a limit beyond which x is the same number
 */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"

#include <math.h>

/* x (1 + u) / 2 in every association of its three factors, one of them 0.5 or its inverse */
#define HALF_OF(u)                                                                                                     \
    "Mul(Mul(Add(" u ", 1), x), 0.5)", "Mul(Mul(Add(" u ", 1), 0.5), x)", "Mul(Add(" u ", 1), Mul(x, 0.5))",           \
        "Mul(Add(" u ", 1), Div(x, 2))", "Mul(Div(Add(" u ", 1), 2), x)", "Div(Mul(Add(" u ", 1), x), 2)"

/* sqrt(2 / pi) (x + k x^3), also as sqrt(2 / pi) x (1 + k x^2) */
#define X2   "(Mul(x, x) | Pow(x, 2))"
#define K_X2 "(Mul(" X2 ", 0.044715) | Mul(Mul(x, 0.044715), x))"
#define K_X3                                                                                                           \
    "(Mul((Pow(x, 3) | Mul(" X2 ", x)), 0.044715) | Mul(" X2                                                           \
    ", Mul(x, 0.044715)) | "                                                                                           \
    "Mul(Mul(Mul(x, 0.044715), x), x))"
#define TANH                                                                                                           \
    "Tanh((Mul(Add(" K_X3 ", x), 0.7978845608) | Mul(Mul(Add(" K_X2                                                    \
    ", 1), x), 0.7978845608) | "                                                                                       \
    "Mul(Add(" K_X2 ", 1), Mul(x, 0.7978845608))))"

/* The last one is x erfc(-x / sqrt 2) / 2. */
static const char *const erf_forms[] = {
    HALF_OF("Erf((Div(x, 1.4142135624) | Mul(x, 0.7071067812)))"),
    "Mul(Mul(x, 0.5), Sub(1, Erf(Mul(Neg(x), 0.7071067812))))",
};
static const char *const tanh_forms[] = { HALF_OF(TANH) };

static const char *const swish_forms[] = { "Mul(Sigmoid((Mul(x, $alpha) | x)), x)", "Div(x, Add(Exp(Neg(x)), 1))" };
static const char *const hard_swish_forms[] = {
    "Mul(gate = HardSigmoid(x), x)",
    "Div(Mul(Clip(Add(x, 3), 0, 6), x), 6)",
    "Mul(Div(Clip(Add(x, 3), 0, 6), 6), x)",
    "Mul(Mul(Clip(Add(x, 3), 0, 6), 0.1666666667), x)",
    "Mul(Mul(Clip(Add(x, 3), 0, 6), x), 0.1666666667)",
};
static const char *const mish_forms[] = { "Mul(Tanh(Softplus(x)), x)" };
static const char *const softplus_forms[] = { "Log(Add(Exp(x), 1))", "Where(Greater(x, $limit), x, Softplus(x))" };

/* The first of the forms that matches at `node` and is an elementwise function of x alone; -1: none. */
static int find_form(struct zt_graph *g, int node, const char *const *forms, int count, struct zt_match *m) {
    for (int i = 0; i < count; i++)
        if (zt_pattern_find(g, node, forms[i], m) && zt_match_same(m, zt_match_value(m, "x"), zt_match_result(m)))
            return i;
    return -1;
}
#define FIND(g, node, forms, m) find_form((g), (node), (forms), (int)(sizeof(forms) / sizeof *(forms)), (m))

static int replace(struct zt_match *m, const char *op_type) {
    return zt_match_replace(m, op_type, (const int[]){ zt_match_value(m, "x") }, 1);
}

static bool fuse_gelu(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    bool tanh = FIND(g, node, erf_forms, &m) < 0;
    if (tanh && FIND(g, node, tanh_forms, &m) < 0)
        return false;
    int gelu = replace(&m, "Gelu");
    zt_node_set_text(g, gelu, "approximate", tanh ? "tanh" : "none");
    return zt_match_done(&m, table, gelu, err);
}

static bool fuse_swish(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    if (FIND(g, node, swish_forms, &m) < 0)
        return false;
    double alpha = zt_match_number(&m, "alpha", 1);
    int swish = replace(&m, "Swish");
    zt_node_set_float(g, swish, "alpha", (float)alpha);
    return zt_match_done(&m, table, swish, err);
}

static bool fuse_hard_swish(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    if (FIND(g, node, hard_swish_forms, &m) < 0)
        return false;
    const struct zt_node *gate = zt_match_node(&m, "gate");
    if (gate && (fabsf(zt_attr_float(gate, "alpha", 0.2F) - 1.0F / 6) > 1e-6F ||
                 fabsf(zt_attr_float(gate, "beta", 0.5F) - 0.5F) > 1e-6F))
        return false;
    return zt_match_done(&m, table, replace(&m, "HardSwish"), err);
}

static bool fuse_mish(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    return FIND(g, node, mish_forms, &m) >= 0 && zt_match_done(&m, table, replace(&m, "Mish"), err);
}

/* Beyond 15, x and log(1 + exp x) are the same float. */
static bool fuse_softplus(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    return FIND(g, node, softplus_forms, &m) >= 0 && zt_match_number(&m, "limit", 15) >= 15 &&
           zt_match_done(&m, table, replace(&m, "Softplus"), err);
}

const struct zt_pattern zt_pattern_gelu = { "gelu", ZT_FUSE_FORWARD, fuse_gelu };
const struct zt_pattern zt_pattern_swish = { "swish", ZT_FUSE_FORWARD, fuse_swish };
const struct zt_pattern zt_pattern_hard_swish = { "hard_swish", ZT_FUSE_FORWARD, fuse_hard_swish };
const struct zt_pattern zt_pattern_mish = { "mish", ZT_FUSE_FORWARD, fuse_mish };
const struct zt_pattern zt_pattern_softplus = { "softplus", ZT_FUSE_FORWARD, fuse_softplus };
