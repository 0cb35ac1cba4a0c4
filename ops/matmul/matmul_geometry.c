/* The geometry of matrix products, read from the node (matmul.h). Needs no table of rows: the CUDA module has it too.
 */
#include "ops/matmul/matmul.h"

static bool fail_shapes(const struct zt_graph *g, int node, const struct zt_shape *a, const struct zt_shape *b,
                        struct zt_err *err) {
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    return zt_node_fail(g, node, err, "shapes %s and %s cannot be multiplied", zt_shape_text(a, s),
                        zt_shape_text(b, t));
}

/* The batch axes of one input against those of the result, and its batch strides: 0 where it has one there. */
static void batch_strides(const struct zt_shape *of, const struct zt_shape *batch, int64_t *stride) {
    int64_t own[ZT_MAX_RANK];
    zt_shape_strides(of, own);
    int axes = of->rank > 2 ? of->rank - 2 : 0;
    for (int k = 0; k < batch->rank; k++) {
        int from = k - (batch->rank - axes);
        stride[k] = from < 0 || of->dim[from] == 1 ? 0 : own[from];
    }
}

bool zt_matmul_batch(const struct zt_shape *a, const struct zt_shape *b, struct zt_shape *to) {
    int x = a->rank > 2 ? a->rank - 2 : 0, y = b->rank > 2 ? b->rank - 2 : 0;
    *to = (struct zt_shape){ .rank = x > y ? x : y };
    for (int k = 1; k <= to->rank; k++) {
        int64_t p = k <= x ? a->dim[x - k] : 1, q = k <= y ? b->dim[y - k] : 1;
        if (p != q && p != 1 && q != 1)
            return false;
        to->dim[to->rank - k] = p == 1 ? q : p;
    }
    return true;
}

bool zt_matmul_is_bias(const struct zt_shape *c, int64_t n) {
    return c->rank >= 1 && c->dim[c->rank - 1] == n && zt_shape_count(c) == n;
}

/* Folds the batch of a into its rows where b is one matrix: one tall product instead of many small ones. */
static void fold_batch(struct zt_matmul *to, const struct zt_shape *a, bool trans_a) {
    int64_t batch = zt_shape_count(&to->batch);
    if (trans_a || a->rank < 3 || batch * to->m == 0)
        return;
    for (int k = 0; k < to->batch.rank; k++)
        if (to->b_batch[k] || (to->batch.dim[k] > 1 && !to->a_batch[k]))
            return;
    to->m *= batch;
    to->batch.rank = 0;
}

bool zt_matmul_read(const struct zt_graph *g, int node, const struct zt_shape *a, const struct zt_shape *b,
                    struct zt_matmul *to, struct zt_err *err) {
    const bool trans_a = zt_attr_int(g->nodes[node], "transA", 0), trans_b = zt_attr_int(g->nodes[node], "transB", 0);
    *to = (struct zt_matmul){ 0 };
    if (a->rank < 1 || b->rank < 1 || (trans_a && a->rank < 2) || (trans_b && b->rank < 2))
        return fail_shapes(g, node, a, b, err);
    bool row = a->rank == 1, column = b->rank == 1;
    int64_t a1 = row ? 1 : a->dim[a->rank - 2], a2 = a->dim[a->rank - 1];
    int64_t b1 = column ? b->dim[0] : b->dim[b->rank - 2], b2 = column ? 1 : b->dim[b->rank - 1];
    to->m = trans_a ? a2 : a1;
    to->k = trans_a ? a1 : a2;
    to->n = trans_b ? b1 : b2;
    if (to->k != (trans_b ? b2 : b1) || !zt_matmul_batch(a, b, &to->batch))
        return fail_shapes(g, node, a, b, err);
    to->a_row = trans_a ? 1 : a2;
    to->a_col = trans_a ? a2 : 1;
    to->b_row = trans_b ? 1 : b2;
    to->b_col = trans_b ? b2 : 1;
    batch_strides(a, &to->batch, to->a_batch);
    batch_strides(b, &to->batch, to->b_batch);
    to->out = to->batch;
    if (!row)
        to->out.dim[to->out.rank++] = to->m;
    if (!column)
        to->out.dim[to->out.rank++] = to->n;
    fold_batch(to, a, trans_a);
    return true;
}

bool zt_matmul_read_node(const struct zt_graph *g, int node, struct zt_matmul *to, struct zt_err *err) {
    return zt_matmul_read(g, node, &zt_in(g, node, 0)->shape, &zt_in(g, node, 1)->shape, to, err);
}
