/* gemm: on the CPU, rows times a matrix that the exporter transposed, and the bias behind it, as one Gemm:
 *
 *     Add(MatMul(x, Transpose(w)), bias)  ->  Gemm<transB>(x, w, bias)      x flattened to rows, the result back again
 *
 * The product reads w where it lies, its gradient is made in the order of w, and the bias is added while a result is in
 * registers. Without: a copy of w, and a pass over its gradient. Where w is not transposed, the bias alone is a reason.
 */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"

static const char *const forms[] = {
    "Add(MatMul(x, t = Transpose(w)), bias)",
    "Add(MatMul(x, w), bias)",
    "MatMul(x, t = Transpose(w))",
    NULL,
};

static bool exchanges_axes(const struct zt_node *transpose) {
    const struct zt_attr *perm = zt_node_attr(transpose, "perm");
    return !perm || (perm->count == 2 && perm->ints[0] == 1 && perm->ints[1] == 0);
}

static bool fits(const struct zt_match *m) {
    const struct zt_graph *g = m->g;
    const struct zt_node *transpose = zt_match_node(m, "t");
    const int result = zt_match_result(m), bias = zt_match_value(m, "bias");
    const struct zt_shape *x = &g->values[zt_match_value(m, "x")]->shape, *y = &g->values[result]->shape;
    const struct zt_shape *w = &g->values[zt_match_value(m, "w")]->shape;
    if (x->rank < 2 || w->rank != 2 || y->rank != x->rank || (transpose && !exchanges_axes(transpose)))
        return false;
    for (int a = 0; a < x->rank - 1; a++)
        if (x->dim[a] != y->dim[a] || x->dim[a] <= 0)
            return false;
    return bias < 0 || (g->values[bias]->shape.rank == 1 && zt_match_along(m, bias, result, y->rank - 1, y->rank));
}

/* Returns x as rows; -1: failure. A value of an earlier stage crosses the boundary unchanged. */
static int rows_of(struct zt_match *m, const struct zt_op_table *table, struct zt_err *err) {
    struct zt_graph *g = m->g;
    const int x = zt_match_value(m, "x"), from = g->values[x]->origin == ZT_FROM_NODE ? g->values[x]->producer : -1;
    const struct zt_shape shape = g->values[x]->shape;
    struct zt_shape rows = { 2, { 1, shape.dim[shape.rank - 1] } };
    for (int a = 0; a < shape.rank - 1; a++)
        rows.dim[0] *= shape.dim[a];
    if (shape.rank == 2 || from < 0 || g->nodes[from]->stage == g->nodes[m->root]->stage)
        return zt_match_reshape(m, table, x, &rows, err);
    const int in[2] = { x, zt_graph_add_ints(g, NULL, rows.dim, rows.rank) };
    return zt_match_before(m, table, &(struct zt_match_node){ "Reshape", in, 2, NULL, NULL }, err);
}

static bool replace(struct zt_match *m, const struct zt_op_table *table, const int *in, int count, struct zt_err *err) {
    const struct zt_shape y = m->g->values[zt_match_result(m)]->shape;
    const bool trans = zt_match_node(m, "t") != NULL;
    if (y.rank == 2) {
        const int made = zt_match_replace(m, "Gemm", in, count);
        zt_node_set_int(m->g, made, "transB", trans);
        return zt_match_done(m, table, made, err);
    }
    const struct zt_match_node gemm = { "Gemm", in, count, NULL, trans ? "transB" : NULL };
    const int product = zt_match_before(m, table, &gemm, err);
    if (product < 0)
        return false;
    const int back[2] = { product, zt_graph_add_ints(m->g, NULL, y.dim, y.rank) };
    return zt_match_done(m, table, zt_match_replace(m, "Reshape", back, 2), err);
}

static bool fuse(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    for (int f = 0; forms[f]; f++) {
        if (!zt_pattern_find(g, node, forms[f], &m) || !fits(&m))
            continue;
        const int in[3] = { rows_of(&m, table, err), zt_match_value(&m, "w"), zt_match_value(&m, "bias") };
        return in[0] >= 0 && replace(&m, table, in, in[2] >= 0 ? 3 : 2, err);
    }
    return false;
}

const struct zt_pattern zt_pattern_gemm = { "gemm", ZT_FUSE_FORWARD_CPU, fuse };
