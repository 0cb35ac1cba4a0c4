/* y = a b over the last two axes, batch axes broadcast as in numpy         ONNX MatMul, opset 1 on
 *
 *     da = dy b^T, db = a^T dy, summed over broadcast axes
 *
 * A 1-D a stands for one row and a 1-D b for one column, whose axis is missing in y. Gradients of the common case, b of
 * rank 2, are Gemm nodes over a and dy reshaped to matrices (reshapes move nothing); the others are ztrain.BatchMatMul,
 * which is MatMul with transposition flags, so that no back end has to materialise a transposed matrix. */
#include "ops/matmul/matmul.h"
#include "ops/matmul/kernels.h"

#include "graph/passes/grad.h"
#include "graph/passes/low_rank/low_rank.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* cuBLAS knows neither empty matrices nor sides beyond 2^31. */
static bool has_product(const struct zt_graph *g, int node) {
    struct zt_matmul m;
    struct zt_err err = { 0 };
    return zt_matmul_read_node(g, node, &m, &err) && zt_cuda_size(m.m) && zt_cuda_size(m.n) && zt_cuda_size(m.k) &&
           zt_shape_count(&m.batch) > 0;
}

bool zt_matmul_takes_cuda(const struct zt_graph *g, int node) {
    return zt_cuda_floats(g, node) && has_product(g, node);
}

bool zt_matmul_takes_cuda_float(const struct zt_graph *g, int node) {
    return zt_cuda_any_floats(g, node) && has_product(g, node);
}

bool zt_matmul_takes_cuda_bits(const struct zt_graph *g, int node) {
    return zt_cuda_float_data(g, node) && has_product(g, node);
}

static const struct zt_attr_spec batch_attrs[] = { { "transA", ZT_ATTR_INT }, { "transB", ZT_ATTR_INT }, { 0 } };

static bool matmul_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_matmul geometry;
    if (!zt_matmul_read_node(g, node, &geometry, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &geometry.out);
    return true;
}

double zt_matmul_flops(const struct zt_graph *g, int node) {
    struct zt_matmul m;
    struct zt_err err = { 0 };
    return zt_matmul_read_node(g, node, &m, &err) ? 2.0 * (double)zt_shape_count(&m.out) * (double)m.k : 0;
}

static bool matmul_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_product p = { .dtype = call->in[0].dtype,
                            .a = call->in[0].data,
                            .b = call->in[1].data,
                            .alpha = 1,
                            .beta = 1,
                            .y = call->out[0].data,
                            .threads = call->threads };
    /* other rows run it on tensors of their own */
    if (!zt_matmul_read(call->graph, zt_call_node(call), &call->in[0].shape, &call->in[1].shape, &p.geometry, err))
        return false;
    zt_product_run(&p);
    return true;
}

/* ---- gradient ---- */

static struct zt_attr flag(const char *name) {
    return (struct zt_attr){ .name = name, .type = ZT_ATTR_INT, .i = 1 };
}

/* a b with one side transposed, as `op` (Gemm or ztrain.BatchMatMul). */
static int product(struct zt_grad *b, const char *op, const char *domain, int left, int right, const char *transposed) {
    struct zt_attr attr = flag(transposed);
    int in[2] = { left, right }, out;
    return zt_emit_node(b, &(struct zt_emission){ op, domain, in, 2, NULL, &attr, 1 }, &out, 1) ? out : -1;
}

static int reshape(struct zt_grad *b, int value, const struct zt_shape *shape) {
    if (value < 0 || zt_shape_equal(&zt_grad_graph(b)->values[value]->shape, shape))
        return value;
    struct zt_attr allow_zero = flag("allowzero");
    int in[2] = { value, zt_emit_ints(b, shape->dim, shape->rank) }, out;
    return zt_emit_node(b, &(struct zt_emission){ "Reshape", "", in, 2, NULL, &allow_zero, 1 }, &out, 1) ? out : -1;
}

/* b is one matrix [K, N]: with every other axis folded into rows R, da[R,K] = dy[R,N] b^T and db[K,N] = a^T[K,R]
 * dy[R,N]. */
static void matrix_grad(struct zt_grad *b, int node, int dy) {
    const struct zt_graph *g = zt_grad_graph(b);
    int a = g->nodes[node]->in[0], w = g->nodes[node]->in[1];
    struct zt_shape shape = g->values[a]->shape, last = g->values[w]->shape;
    int64_t rows = 1;
    for (int k = 0; k < shape.rank - 1; k++)
        rows *= shape.dim[k];
    dy = reshape(b, dy, &(struct zt_shape){ 2, { rows, last.dim[1] } });
    if (zt_grad_wanted(b, node, 0)) {
        int da = product(b, "Gemm", "", dy, w, "transB");
        zt_grad_give(b, node, 0, zt_emit_reshape_like(b, da, a));
    }
    if (zt_grad_wanted(b, node, 1)) {
        int flat = reshape(b, a, &(struct zt_shape){ 2, { rows, last.dim[0] } });
        zt_grad_give(b, node, 1, product(b, "Gemm", "", flat, dy, "transA"));
    }
}

static struct zt_shape as_matrix(struct zt_shape shape, bool column) {
    if (shape.rank == 1)
        shape = column ? (struct zt_shape){ 2, { shape.dim[0], 1 } } : (struct zt_shape){ 2, { 1, shape.dim[0] } };
    return shape;
}

static void batch_grad(struct zt_grad *b, int node, int dy) {
    const struct zt_graph *g = zt_grad_graph(b);
    int in[2] = { g->nodes[node]->in[0], g->nodes[node]->in[1] };
    struct zt_shape sa = as_matrix(g->values[in[0]]->shape, false), sb = as_matrix(g->values[in[1]]->shape, true), sy;
    zt_matmul_batch(&sa, &sb, &sy);
    sy.dim[sy.rank++] = sa.dim[sa.rank - 2];
    sy.dim[sy.rank++] = sb.dim[sb.rank - 1];
    dy = reshape(b, dy, &sy);
    int left = reshape(b, in[0], &sa), right = reshape(b, in[1], &sb);
    for (int i = 0; i < 2; i++) {
        if (!zt_grad_wanted(b, node, i))
            continue;
        int d = i == 0 ? product(b, "BatchMatMul", "ztrain", dy, right, "transB")
                       : product(b, "BatchMatMul", "ztrain", left, dy, "transA");
        d = zt_grad_unbroadcast(b, d, i == 0 ? left : right);
        zt_grad_give(b, node, i, zt_emit_reshape_like(b, d, in[i]));
    }
}

static bool matmul_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_graph *g = zt_grad_graph(b);
    int dy = zt_grad_out(b, node, 0);
    bool matrix = zt_in(g, node, 1)->shape.rank == 2 && zt_in(g, node, 0)->shape.rank >= 2;
    (matrix ? matrix_grad : batch_grad)(b, node, dy);
    return true;
}

/* ---- low-rank changes ---- */

/* x (W + s P Q) = x W + ((x P) s) Q, and (W + s P Q) x = W x + P (s (Q x)): the scale is applied to the smaller value.
 */
static int matmul_low_rank(struct zt_low_rank *l) {
    const bool left = l->in == 0; /* the weight is the left operand */
    const int first[2] = { left ? l->q : l->x, left ? l->x : l->p };
    const int u = zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora_A", "MatMul", first, 2, NULL, 0 });
    const int scaled = zt_low_rank_scale(l, u), second[2] = { left ? l->p : scaled, left ? scaled : l->q };
    return zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora_B", "MatMul", second, 2, NULL, 0 });
}

static int matmul_summed(const struct zt_node *node, int in) {
    (void)node;
    return in == 0 ? 1 : 0;
}

static const struct zt_low_rank_row matmul_low_rank_row = {
    .weight_in = 1 << 0 | 1 << 1,
    .summed = matmul_summed,
    .emit = matmul_low_rank,
};

static int matmul_channel_axis(const struct zt_node *n, int in, int rank) {
    (void)n;
    return in == 1 ? rank - 1 : rank - 2;
}

const struct zt_op zt_op_matmul = {
    .name = "MatMul",
    .domain = "",
    .since = 1,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_HALF | ZT_OP_PRODUCT,
    .in_types = { ZT_ANY_NUMBER, ZT_ANY_NUMBER },
    .same_type = 1 << 1,
    .infer = matmul_infer,
    .grad = matmul_grad,
    .channel_axis = matmul_channel_axis,
    .low_rank = &matmul_low_rank_row,
    .flops = zt_matmul_flops,
    .kernel = { [ZT_REF] = { .run = matmul_ref },
                [ZT_CPU] = ZT_ON_CPU_WITH(zt_matmul_cpu, .prefers_float = zt_cpu_lacks_bf16),
                [ZT_CUDA] = ZT_ON_CUDA(matmul, zt_matmul_takes_cuda) },
};

/* y = op(a) op(b), where op exchanges the last two axes if transA (transB) is set. */
const struct zt_op zt_op_batch_matmul = {
    .name = "BatchMatMul",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_HALF,
    .in_types = { ZT_ANY_NUMBER, ZT_ANY_NUMBER },
    .same_type = 1 << 1,
    .attrs = batch_attrs,
    .infer = matmul_infer,
    .flops = zt_matmul_flops,
    .body = zt_batch_matmul_function_body,
    .kernel = { [ZT_REF] = { .run = matmul_ref },
                [ZT_CPU] = ZT_ON_CPU_WITH(zt_matmul_cpu, .prefers_float = zt_cpu_lacks_bf16),
                [ZT_CUDA] = ZT_ON_CUDA(matmul, zt_matmul_takes_cuda) },
};
