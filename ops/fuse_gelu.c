/* Activations that exporters take apart: what several nodes compute becomes the standard's op.
 *
 *     gelu    x (1 + erf(x / sqrt 2)) / 2, and the tanh form x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
#include "ops/fuse_form.h"
#include "ops/table.h"

/* x (1 + u) / 2 in every association of its three factors, one of them 0.5 or its inverse */
#define HALF_OF(u)                                                                                                     \
    "Mul(Mul(Add(" u ", 1), x), 0.5)", "Mul(Mul(Add(" u ", 1), 0.5), x)", "Mul(Add(" u ", 1), Mul(x, 0.5))",           \
        "Mul(Add(" u ", 1), Div(x, 2))", "Mul(Div(Add(" u ", 1), 2), x)", "Div(Mul(Add(" u ", 1), x), 2)"

/* sqrt(2 / pi) (x + k x^3), also as sqrt(2 / pi) x (1 + k x^2) */
#define SQUARE "(Mul(x, x) | Pow(x, 2))"
#define K_X2   "(Mul(" SQUARE ", 0.044715) | Mul(Mul(x, 0.044715), x))"
#define K_X3                                                                                                           \
    "(Mul((Pow(x, 3) | Mul(" SQUARE ", x)), 0.044715) | Mul(" SQUARE                                                   \
    ", Mul(x, 0.044715)) | "                                                                                           \
    "Mul(Mul(Mul(x, 0.044715), x), x))"
#define TANH                                                                                                           \
    "Tanh((Mul(Add(" K_X3 ", x), 0.7978845608) | Mul(Mul(Add(" K_X2                                                    \
    ", 1), x), 0.7978845608) | "                                                                                       \
    "Mul(Add(" K_X2 ", 1), Mul(x, 0.7978845608))))"

static const char *const erf_forms[] = { HALF_OF("Erf((Div(x, 1.4142135624) | Mul(x, 0.7071067812)))") };
static const char *const tanh_forms[] = { HALF_OF(TANH) };
enum { FORMS = sizeof erf_forms / sizeof *erf_forms };

static bool fuse_gelu(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    for (int i = 0; i < 2 * FORMS; i++) {
        if (!zt_form_find(g, node, i < FORMS ? erf_forms[i] : tanh_forms[i - FORMS], &m))
            continue;
        int x = zt_match_value(&m, "x");
        if (!zt_match_same(&m, x, zt_match_result(&m)))
            return false;
        int gelu = zt_match_replace(&m, "Gelu", &x, 1);
        zt_node_set_text(g, gelu, "approximate", i < FORMS ? "none" : "tanh");
        return zt_match_done(&m, table, gelu, err);
    }
    return false;
}

const struct zt_pattern zt_pattern_gelu = { "gelu", ZT_FUSE_FORWARD, fuse_gelu };
