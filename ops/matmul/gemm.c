/* y[M,N] = alpha op(a)[M,K] op(b)[K,N] + beta c, c broadcast to [M,N]         ONNX Gemm, opset 7 on
 *
 *     da = alpha dy op(b)^T   (its transpose where transA is set)
 *     db = alpha op(a)^T dy   (its transpose where transB is set)
 *     dc = beta dy            summed over broadcast axes
 *
 * da and db are again Gemms:
 *
 *     transA transB   da              db
 *        0      0     dy b^T          a^T dy
 *        0      1     dy b            dy^T a
 *        1      0     b dy^T          a dy
 *        1      1     b^T dy^T        dy^T a^T */
#include "ops/matmul/matmul.h"

#include "graph/passes/grad.h"
#include "graph/passes/low_rank/low_rank.h"
#include "ops/kernel/shape.h"
#include "ops/matmul/kernels.h"

static const struct zt_attr_spec gemm_attrs[] = {
    { "alpha", ZT_ATTR_FLOAT }, { "beta", ZT_ATTR_FLOAT }, { "transA", ZT_ATTR_INT }, { "transB", ZT_ATTR_INT }, { 0 }
};

static bool gemm_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *a = zt_in(g, node, 0), *b = zt_in(g, node, 1), *c = zt_in(g, node, 2);
    struct zt_matmul geometry;
    if (a->shape.rank != 2 || b->shape.rank != 2)
        return zt_node_fail(g, node, err, "inputs \"%s\" and \"%s\" have rank %d and %d, want 2", a->name, b->name,
                            a->shape.rank, b->shape.rank);
    if (!zt_matmul_read_node(g, node, &geometry, err))
        return false;
    struct zt_shape both;
    if (c && !zt_broadcast(g, node, &c->shape, &geometry.out, &both, err))
        return false;
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    if (c && !zt_shape_equal(&both, &geometry.out))
        return zt_node_fail(g, node, err, "input \"%s\" has shape %s, which does not broadcast to %s", c->name,
                            zt_shape_text(&c->shape, s), zt_shape_text(&geometry.out, t));
    zt_set_out(g, node, 0, a->dtype, &geometry.out);
    return true;
}

static bool gemm_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *in = call->in;
    struct zt_product p = { .dtype = in[0].dtype,
                            .a = in[0].data,
                            .b = in[1].data,
                            .y = call->out[0].data,
                            .alpha = (double)zt_attr_float(call->node, "alpha", 1),
                            .beta = (double)zt_attr_float(call->node, "beta", 1),
                            .threads = call->threads };
    if (!zt_matmul_read(call->graph, call->node->index, &in[0].shape, &in[1].shape, &p.geometry, err))
        return false;
    if (call->in_count > 2 && in[2].data) {
        const struct zt_shape *c = &in[2].shape;
        int64_t cols = c->rank > 0 ? c->dim[c->rank - 1] : 1, rows = c->rank > 1 ? c->dim[0] : 1;
        p.c = in[2].data;
        p.c_col = cols > 1;
        p.c_row = rows > 1 ? cols : 0;
    }
    zt_product_run(&p);
    return true;
}

/* alpha op(left) op(right). */
static int gemm(struct zt_grad *b, float alpha, int left, bool trans_left, int right, bool trans_right) {
    struct zt_attr attrs[] = { { .name = "alpha", .type = ZT_ATTR_FLOAT, .f = alpha },
                               { .name = "transA", .type = ZT_ATTR_INT, .i = trans_left },
                               { .name = "transB", .type = ZT_ATTR_INT, .i = trans_right } };
    int in[2] = { left, right }, out;
    return zt_emit_node(b, &(struct zt_emission){ "Gemm", "", in, 2, NULL, attrs, 3 }, &out, 1) ? out : -1;
}

static bool gemm_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    struct zt_graph *g = zt_grad_graph(b);
    struct zt_node n = *g->nodes[node];
    bool ta = zt_attr_int(&n, "transA", 0), tb = zt_attr_int(&n, "transB", 0);
    float alpha = zt_attr_float(&n, "alpha", 1), beta = zt_attr_float(&n, "beta", 1);
    int dy = zt_grad_out(b, node, 0);
    if (zt_grad_wanted(b, node, 0))
        zt_grad_give(b, node, 0, ta ? gemm(b, alpha, n.in[1], tb, dy, true) : gemm(b, alpha, dy, false, n.in[1], !tb));
    if (zt_grad_wanted(b, node, 1))
        zt_grad_give(b, node, 1, tb ? gemm(b, alpha, dy, true, n.in[0], ta) : gemm(b, alpha, n.in[0], !ta, dy, false));
    if (zt_grad_wanted(b, node, 2)) {
        int dc = zt_grad_unbroadcast(b, dy, n.in[2]);
        if (beta != 1.0f && dc >= 0)
            dc = ZT_EMIT(b, "Mul", dc, zt_emit_float(b, g->values[dc]->dtype, (double)beta));
        zt_grad_give(b, node, 2, dc);
    }
    return true;
}

/* ---- low-rank changes ---- */

static int product(struct zt_low_rank *l, const char *part, const int *in, const bool *transposed) {
    const struct zt_attr attrs[] = { { .name = "transA", .type = ZT_ATTR_INT, .i = transposed[0] },
                                     { .name = "transB", .type = ZT_ATTR_INT, .i = transposed[1] } };
    return zt_low_rank_emit(l, &(struct zt_low_rank_node){ part, "Gemm", in, 2, attrs, 2 });
}

/* With op(W) = op(P Q): op(x) op(W) = (op(x) P) Q, or (op(x) Q^T) P^T where W is transposed; likewise for W as the left
 * operand. alpha is part of the scale. */
static int gemm_low_rank(struct zt_low_rank *l) {
    const struct zt_node *n = l->g->nodes[l->node];
    const bool left = l->in == 0, tx = zt_attr_int(n, left ? "transB" : "transA", 0),
               tw = zt_attr_int(n, left ? "transA" : "transB", 0);
    const int near = left == tw ? l->p : l->q, far = left == tw ? l->q : l->p; /* near: the factor beside x */
    if (l->x != n->in[left] && tx != left) {
        zt_node_fail(l->g, l->node, l->err, "the dropout of an adapter needs samples on the first axis of its input");
        return -1;
    }
    l->scale *= (double)zt_attr_float(n, "alpha", 1);
    const int u = product(l, "lora_A", (int[]){ left ? near : l->x, left ? l->x : near },
                          (bool[]){ left ? tw : tx, left ? tx : tw });
    const int scaled = zt_low_rank_scale(l, u);
    return product(l, "lora_B", (int[]){ left ? far : scaled, left ? scaled : far },
                   (bool[]){ left && tw, !left && tw });
}

static int gemm_summed(const struct zt_node *node, int in) {
    return in == 0 ? !zt_attr_int(node, "transA", 0) : (int)zt_attr_int(node, "transB", 0);
}

static const struct zt_low_rank_row gemm_low_rank_row = {
    .weight_in = 1 << 0 | 1 << 1,
    .summed = gemm_summed,
    .emit = gemm_low_rank,
};

static int gemm_channel_axis(const struct zt_node *n, int in, int rank) {
    (void)rank;
    return in == 1 ? !zt_attr_int(n, "transB", 0) : zt_attr_int(n, "transA", 0) != 0;
}

const struct zt_op zt_op_gemm = {
    .name = "Gemm",
    .domain = "",
    .since = 7,
    ZT_ONE_OUT(2, 3),
    .flags = ZT_OP_HALF | ZT_OP_PRODUCT,
    .in_types = { ZT_ANY_NUMBER, ZT_ANY_NUMBER, ZT_ANY_NUMBER },
    .same_type = 1 << 1 | 1 << 2,
    .attrs = gemm_attrs,
    .infer = gemm_infer,
    .grad = gemm_grad,
    .channel_axis = gemm_channel_axis,
    .low_rank = &gemm_low_rank_row,
    .flops = zt_matmul_flops,
    .kernel = { [ZT_REF] = { .run = gemm_ref },
                [ZT_CPU] = ZT_ON_CPU_WITH(zt_matmul_cpu, .prefers_float = zt_cpu_lacks_bf16),
                [ZT_CUDA] = ZT_ON_CUDA(matmul, zt_matmul_takes_cuda) },
};
