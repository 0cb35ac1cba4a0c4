/* A matrix product and the GELU after it, or GELU's gradient after it in the backward phase, as one product with an
 * epilogue of cuBLASLt:
 *
 *     ztrain.LinearGelu(x, w[, bias]) -> y[, z]        z = alpha op(x) op(w) + bias, y = Gelu(z)
 *     ztrain.MatMulGeluGrad(a, b, z) -> dz             dz = GeluGrad(alpha op(a) op(b), z), with z's shape
 *
 * cuBLASLt only has the Gelu with approximate = "tanh": a Gelu by erf stays a node of its own. All axes of x but the
 * last are rows, w and b are matrices. op exchanges the axes of a matrix where transA (transB) is set. z is an output
 * where a node beside Gelu reads it, such as GeluGrad.
 *
 *     forward      Gelu(Add(MatMul(x, w), bias)), Gelu(Gemm(x, w, bias)), and both without bias
 *     backward     GeluGrad(Gemm(a, b), z)
 *
 * A Reshape may stand between, as exporters and gradients compute rows of several axes as Gemms over one axis. */
#include "ops/elementwise/pointwise.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/fuse_linear.h"
#include "ops/kernel/shape.h"

#include <string.h>

extern const struct zt_op zt_op_gelu, zt_op_gelu_grad;

/* ---- the rows ---- */

static bool linear_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_matmul m;
    if (!zt_linear_read(g, node, &m, err) || !zt_linear_check_bias(g, node, &m, err))
        return false;
    for (int i = 0; i < 2; i++)
        zt_set_out(g, node, i, zt_in(g, node, 0)->dtype, &m.out);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *z = zt_in(g, node, 2);
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    struct zt_matmul m;
    if (!zt_linear_read(g, node, &m, err))
        return false;
    if (zt_shape_count(&z->shape) != m.m * m.n)
        return zt_node_fail(g, node, err, "input \"%s\" has shape %s, the product %s", z->name,
                            zt_shape_text(&z->shape, s), zt_shape_text(&m.out, t));
    zt_set_out(g, node, 0, z->dtype, &z->shape);
    return true;
}

/* A node of Gelu or GeluGrad as this file means them. */
static struct zt_node gelu_node(const struct zt_node *like, const struct zt_op *row) {
    static const struct zt_attr approximate = { .name = "approximate", .type = ZT_ATTR_STRING, .s = "tanh" };
    struct zt_node n = *like;
    n.op = row;
    n.op_type = row->name;
    n.domain = row->domain;
    n.attr = (struct zt_attr *)&approximate;
    n.attr_count = 1;
    return n;
}

static bool product_ref(const struct zt_call *call, const struct zt_view *bias, void *to, struct zt_err *err) {
    struct zt_product p = { .dtype = call->in[0].dtype,
                            .a = call->in[0].data,
                            .b = call->in[1].data,
                            .c = bias ? bias->data : NULL,
                            .c_col = 1,
                            .alpha = (double)zt_attr_float(call->node, "alpha", 1),
                            .beta = 1,
                            .y = to,
                            .threads = call->threads };
    if (!zt_linear_read(call->graph, zt_call_node(call), &p.geometry, err))
        return false;
    zt_product_run(&p);
    return true;
}

static bool linear_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *z = &call->out[call->out_count > 1 && call->out[1].data];
    struct zt_node gelu = gelu_node(call->node, &zt_op_gelu);
    struct zt_call part = *call;
    part.node = &gelu;
    return product_ref(call, call->in_count > 2 ? &call->in[2] : NULL, z->data, err) &&
           zt_fuse_run(&part, &zt_op_gelu, &(struct zt_fused_call){ z, 1, call->out, 1 }, err);
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_node gelu = gelu_node(call->node, &zt_op_gelu_grad);
    const struct zt_view in[2] = { call->out[0], call->in[2] };
    struct zt_call part = *call;
    part.node = &gelu;
    return product_ref(call, NULL, call->out[0].data, err) &&
           zt_fuse_run(&part, &zt_op_gelu_grad, &(struct zt_fused_call){ in, 2, call->out, 1 }, err);
}

/* Writes a struct zt_fused_elementwise (pointwise.h): the function of the product for cases without an epilogue. */
static bool gelu_describe(const struct zt_graph *g, int node, const struct zt_op *row, void *to, struct zt_err *err) {
    int in[2] = { 0, 0 }, out = 0;
    struct zt_node gelu = gelu_node(g->nodes[node], row);
    struct zt_node *nodes[1] = { &gelu };
    struct zt_value *values[1] = { g->values[g->nodes[node]->out[0]] };
    const struct zt_graph alone = {
        .name = g->name, .values = values, .value_count = 1, .nodes = nodes, .node_count = 1
    };
    gelu.index = 0;
    gelu.in = in;
    gelu.in_count = row->min_in;
    gelu.out = &out;
    gelu.out_count = 1;
    return zt_pointwise_describe(&alone, 0, to, err);
}
static bool linear_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return gelu_describe(g, node, &zt_op_gelu, to, err);
}
static bool grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return gelu_describe(g, node, &zt_op_gelu_grad, to, err);
}

#define PRODUCT_ROW                                                                                                    \
    .domain = "ztrain", .since = 1, .max_in = 3, .min_out = 1,                                                         \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .same_type = 1 << 1 | 1 << 2, .attrs = zt_linear_attrs,  \
    .flags = ZT_OP_HALF | ZT_OP_PRODUCT, .flops = zt_matmul_flops
const struct zt_op zt_op_linear_gelu = {
    .name = "LinearGelu",
    PRODUCT_ROW,
    .min_in = 2,
    .max_out = 2,
    .infer = linear_infer,
    .kernel = { [ZT_REF] = { .run = linear_ref },
                [ZT_CUDA] = ZT_CUDA_AS(linear_gelu, zt_matmul_takes_cuda, linear_describe) },
};
const struct zt_op zt_op_matmul_gelu_grad = {
    .name = "MatMulGeluGrad",
    PRODUCT_ROW,
    .min_in = 3,
    .max_out = 1,
    .infer = grad_infer,
    .kernel = { [ZT_REF] = { .run = grad_ref },
                [ZT_CUDA] = ZT_CUDA_AS(linear_gelu_grad, zt_matmul_takes_cuda, grad_describe) },
};

/* ---- the patterns ---- */

static bool is_tanh(const struct zt_node *n, const struct zt_op *row) {
    return n->op == row && strcmp(zt_attr_text(n, "approximate", "none"), "tanh") == 0;
}

/* The parts of a LinearGelu: the product, the nodes after it, and its bias, -1: none. */
struct linear {
    struct zt_linear_source from; /* the product, or the sum with its bias */
    int product, bias;
};

static bool find_linear(const struct zt_graph *g, int node, struct linear *l) {
    l->from = zt_linear_source_of(g, node, 0, false);
    const int from = l->product = l->from.node;
    if (from >= 0 && zt_linear_is_product(g, from)) {
        l->bias = zt_in(g, from, 2) ? g->nodes[from]->in[2] : -1;
        return true;
    }
    for (int side = 0; side < 2 && from >= 0 && strcmp(g->nodes[from]->op_type, "Add") == 0; side++) {
        const int sum = g->nodes[from]->out[0];
        l->product = zt_fuse_producer(g, from, side, NULL, true);
        l->bias = g->nodes[from]->in[1 - side];
        if (l->product >= 0 && zt_linear_is_product(g, l->product) && !zt_in(g, l->product, 2) &&
            zt_linear_is_bias(g, l->bias, sum) &&
            zt_shape_equal(&zt_out(g, l->product, 0)->shape, &g->values[sum]->shape))
            return true;
    }
    return false;
}

static bool fuse_linear(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct linear l;
    if (!is_tanh(g->nodes[node], &zt_op_gelu) || !find_linear(g, node, &l))
        return false;
    const int y = g->nodes[node]->out[0], z = g->nodes[node]->in[0];
    const int in[3] = { g->nodes[l.product]->in[0], g->nodes[l.product]->in[1], l.bias };
    const struct zt_node like = zt_fuse_attrs_without(g, g->nodes[l.product], "beta");
    const struct zt_shape shape = zt_out(g, l.product, 0)->shape;
    g->nodes[node]->dead = g->nodes[l.product]->dead = true;
    zt_linear_kill(g, &l.from);
    const bool is_read = zt_graph_users(g, z, NULL) > 0 || zt_graph_is_output(g, z);
    const int out[2] = { zt_linear_reshaped(g, table, node, y, &shape, err),
                         is_read ? zt_linear_reshaped(g, table, node, z, &shape, err) : -1 };
    return !err->count &&
           zt_fuse_replace(
               g, table, node,
               &(struct zt_fused_node){ "LinearGelu", in, l.bias >= 0 ? 3 : 2, out, is_read ? 2 : 1, &like }, err);
}

static bool fuse_grad(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    if (!is_tanh(g->nodes[node], &zt_op_gelu_grad))
        return false;
    const struct zt_linear_source from = zt_linear_source_of(g, node, 0, true);
    const int product = from.node;
    if (product < 0 || !zt_linear_is_product(g, product) || zt_in(g, product, 2))
        return false;
    const int in[3] = { g->nodes[product]->in[0], g->nodes[product]->in[1], g->nodes[node]->in[1] };
    const struct zt_node like = zt_fuse_attrs_without(g, g->nodes[product], "beta");
    zt_linear_kill(g, &from);
    zt_fuse_replace(g, table, node, &(struct zt_fused_node){ "MatMulGeluGrad", in, 3, NULL, 0, &like }, err);
    return true;
}

const struct zt_pattern zt_pattern_linear_gelu = { "linear_gelu", 1 << ZT_CUDA, fuse_linear };
const struct zt_pattern zt_pattern_linear_gelu_grad = { "linear_gelu_grad", 1 << ZT_CUDA, fuse_grad };
