/* ReLU after a matrix product, and ReLU's gradient after a product of the backward phase, which reads one bit an
 * element in place of y:
 *
 *     ztrain.LinearRelu(x, w[, bias]) -> y[, bits]     y = max(alpha op(x) op(w) + bias, 0), bits: not y <= 0
 *     ztrain.MatMulReluGrad(a, b, bits) -> dz          dz = alpha op(a) op(b) where the bit is set, else 0
 *
 *     linear_relu    ReluGrad(MatMul(dy, w), y) with y = Relu(p), p a product with or without its bias, which nothing
 *                    else reads
 *
 * bits [rows, ZT_LINEAR_BITS(columns) / 8] (uint8) has column c of a row in bit c % 8 of byte c / 8, zeros behind the
 * last: as cuBLASLt's gradient of ReLU reads it. Nothing flows where y is 0, and NaN does. A Reshape may stand between.
 */
#include "ops/matmul/kernels.h"
#include "ops/matmul/fuse_linear.h"
#include "ops/kernel/shape.h"

#include <string.h>

extern const struct zt_op zt_op_relu, zt_op_relu_grad, zt_op_linear, zt_op_linear_relu;

/* ---- the rows ---- */

static struct zt_shape bits_of(const struct zt_matmul *m) {
    return (struct zt_shape){ 2, { zt_shape_count(&m->out) / (m->n ? m->n : 1), ZT_LINEAR_BITS(m->n) / 8 } };
}

static bool relu_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_matmul m;
    if (!zt_linear_read(g, node, &m, err) || !zt_linear_check_bias(g, node, &m, err))
        return false;
    const struct zt_shape bits = bits_of(&m);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &m.out);
    zt_set_out(g, node, 1, ZT_UINT8, &bits);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *bits = zt_in(g, node, 2);
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    struct zt_matmul m;
    if (!zt_linear_read(g, node, &m, err))
        return false;
    const struct zt_shape wanted = bits_of(&m);
    if (!zt_shape_equal(&bits->shape, &wanted))
        return zt_node_fail(g, node, err, "input \"%s\" has shape %s, wants %s", bits->name,
                            zt_shape_text(&bits->shape, s), zt_shape_text(&wanted, t));
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &m.out);
    return true;
}

static bool relu_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0], *bits = &call->out[call->out_count - 1];
    uint8_t *set = call->out_count > 1 ? bits->data : NULL;
    struct zt_arena *arena = zt_arena_create();
    struct zt_view p;
    const bool ok = zt_linear_product(call, arena, &p, err);
    if (set)
        memset(set, 0, (size_t)zt_shape_count(&bits->shape));
    for (int64_t i = 0; ok && i < zt_shape_count(&y->shape); i++) {
        const int64_t n = y->shape.dim[y->shape.rank - 1];
        const double sum = zt_linear_sum(call, &p, i);
        zt_store_double(y->dtype, y->data, i, sum <= 0 ? 0 : sum);
        if (set && !(sum <= 0))
            set[i / n * (ZT_LINEAR_BITS(n) / 8) + i % n / 8] |= (uint8_t)(1 << i % n % 8);
    }
    zt_arena_destroy(arena);
    return ok;
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *dz = &call->out[0];
    const uint8_t *set = call->in[2].data;
    struct zt_arena *arena = zt_arena_create();
    struct zt_view p;
    const bool ok = zt_linear_product(call, arena, &p, err);
    for (int64_t i = 0; ok && i < zt_shape_count(&dz->shape); i++) {
        const int64_t n = dz->shape.dim[dz->shape.rank - 1];
        const bool flows = set[i / n * (ZT_LINEAR_BITS(n) / 8) + i % n / 8] >> i % n % 8 & 1;
        zt_store_double(dz->dtype, dz->data, i, flows ? zt_load_double(p.dtype, p.data, i) : 0);
    }
    zt_arena_destroy(arena);
    return ok;
}

#define PRODUCT_ROW                                                                                                    \
    .domain = "ztrain", .since = 1, .max_in = 3, .min_out = 1, .attrs = zt_linear_attrs, .flags = ZT_OP_PRODUCT,       \
    .flops = zt_matmul_flops
const struct zt_op zt_op_linear_relu = {
    .name = "LinearRelu",
    PRODUCT_ROW,
    .min_in = 2,
    .max_out = 2,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 2,
    .infer = relu_infer,
    .kernel = { [ZT_REF] = { .run = relu_ref }, [ZT_CUDA] = ZT_ON_CUDA(linear_relu, zt_matmul_takes_cuda_bits) },
};
const struct zt_op zt_op_matmul_relu_grad = {
    .name = "MatMulReluGrad",
    PRODUCT_ROW,
    .min_in = 3,
    .max_out = 1,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_BIT(ZT_UINT8) },
    .same_type = 1 << 1,
    .infer = grad_infer,
    .kernel = { [ZT_REF] = { .run = grad_ref }, [ZT_CUDA] = ZT_ON_CUDA(linear_relu_grad, zt_matmul_takes_cuda_bits) },
};

/* ---- the pattern ---- */

/* The node that makes `value`, behind Reshapes; -1: none. */
static int maker_of(const struct zt_graph *g, int value) {
    int from = g->values[value]->producer;
    while (from >= 0 && zt_op_is_view(g->nodes[from]) && strcmp(g->nodes[from]->op_type, "Reshape") == 0)
        from = g->values[g->nodes[from]->in[0]]->producer;
    return from;
}

/* The forward node becomes one that keeps its bits; returns these, -1: failed. */
static int keep_bits(struct zt_graph *g, const struct zt_op_table *table, int relu, const struct zt_linear_source *from,
                     struct zt_err *err) {
    const struct zt_node *p = g->nodes[from->node];
    const int bits = zt_graph_add_value(g, NULL, ZT_UINT8, NULL);
    g->values[bits]->origin = ZT_FROM_NODE;
    const struct zt_linear_node linear = { "LinearRelu", p->in, p->in_count, bits };
    return zt_linear_replace(g, table, relu, from, &linear, err) ? bits : -1;
}

static bool is_linear(const struct zt_graph *g, int node) {
    return node >= 0 && (g->nodes[node]->op == &zt_op_linear || zt_linear_is_product(g, node)) && !zt_in(g, node, 3);
}

/* Whether both make rows of the same length, the same number of them. */
static bool same_rows(const struct zt_graph *g, int a, int b) {
    const struct zt_shape *x = &zt_out(g, a, 0)->shape, *y = &zt_out(g, b, 0)->shape;
    return zt_shape_count(x) == zt_shape_count(y) && x->dim[x->rank - 1] == y->dim[y->rank - 1];
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    if (g->nodes[node]->op != &zt_op_relu_grad)
        return false;
    const struct zt_linear_source back = zt_linear_source_of(g, node, 0, true);
    const int relu = maker_of(g, g->nodes[node]->in[1]);
    if (back.node < 0 || !zt_linear_is_product(g, back.node) || zt_in(g, back.node, 2) || relu < 0 ||
        g->nodes[relu]->op != &zt_op_relu || g->nodes[relu]->stage != g->nodes[node]->stage)
        return false;
    const struct zt_linear_source from = zt_linear_source_of(g, relu, 0, true);
    if (!is_linear(g, from.node) || !same_rows(g, from.node, back.node))
        return false;
    const int in[3] = { g->nodes[back.node]->in[0], g->nodes[back.node]->in[1], keep_bits(g, table, relu, &from, err) };
    const struct zt_linear_node product = { "MatMulReluGrad", in, 3, -1 };
    return in[2] >= 0 && zt_linear_replace(g, table, node, &back, &product, err);
}

const struct zt_pattern zt_pattern_linear_relu = { "linear_relu", 1 << ZT_CUDA, apply };
