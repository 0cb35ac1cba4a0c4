/* sinc: sin(pi x) / (pi x), 1 at 0, as PyTorch's dynamo exporter writes torch.sinc,
 *
 *     Where(x == 0, 1, Sin(pi x) / (pi x))  ->  Where(x == 0, 1, Sin(s) / s)      s = Where(x == 0, 1, pi x)
 *
 * At 0 the quotient is 0 / 0. Where does not choose it, but its gradient is 0 times infinity; that of torch.sinc is 0.
 */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"

static int add(struct zt_match *m, const struct zt_op_table *table, const char *op, const int *in, struct zt_err *err) {
    const int count = in[1] < 0 ? 1 : in[2] < 0 ? 2 : 3;
    return zt_match_before(m, table, &(struct zt_match_node){ op, in, count, NULL, NULL }, err);
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    if (!zt_pattern_find(g, node, "Where(Equal(x, 0), 1, Div(Sin(p = Mul(x, $pi)), p))", &m))
        return false;
    const int x = zt_match_value(&m, "x");
    const enum zt_dtype dtype = g->values[x]->dtype;
    const int zero = zt_graph_add_float(g, NULL, dtype, 0), one = zt_graph_add_float(g, NULL, dtype, 1),
              pi = zt_graph_add_float(g, NULL, dtype, zt_match_number(&m, "pi", 0));
    const int at_zero = add(&m, table, "Equal", (int[]){ x, zero, -1 }, err);
    const int scaled = at_zero < 0 ? -1 : add(&m, table, "Mul", (int[]){ x, pi, -1 }, err);
    const int safe = scaled < 0 ? -1 : add(&m, table, "Where", (int[]){ at_zero, one, scaled }, err);
    const int sine = safe < 0 ? -1 : add(&m, table, "Sin", (int[]){ safe, -1, -1 }, err);
    const int quotient = sine < 0 ? -1 : add(&m, table, "Div", (int[]){ sine, safe, -1 }, err);
    return quotient >= 0 &&
           zt_match_done(&m, table, zt_match_replace(&m, "Where", (int[]){ at_zero, one, quotient }, 3), err);
}

const struct zt_pattern zt_pattern_sinc = { "sinc", ZT_FUSE_FORWARD, apply };
