/* ReLU behind a convolution or a matrix product becomes part of it, in front of a max pool's gradient part of that:
 *
 *     ztrain.ConvRelu(x, w[, b]) -> y               y = max(Conv(x, w, b), 0)
 *     ztrain.GemmRelu(a, b[, c]) -> y               y = max(Gemm(a, b, c), 0)
 *     ztrain.MaxPoolReluGrad(dy, position, y) -> dx  dx = MaxPoolGrad(dy where y > 0, position), y being the pool's
 * result
 *
 * The last one is ReluGrad(MaxPoolGrad(dy, position), r), r the pool's input: a result of the pool is its input at
 * `position`, so both mask the same gradients, and r is not read in the backward phase any more. NaN passes as it does
 * in ReluGrad. */
#include "graph/passes/fusion/fuse.h"
#include "ops/matmul/kernels.h"
#include "ops/pool/kernels.h"
#include "ops/pool/pool.h"
#include "ops/conv/kernels.h"
#include "ops/conv/conv.h"
#include "ops/fusion/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <string.h>

extern const struct zt_op zt_op_conv, zt_op_gemm, zt_op_relu, zt_op_max_pool_grad;

/* ---- rows ---- */

static bool conv_relu_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return zt_op_conv.infer(g, node, err);
}
static bool gemm_relu_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return zt_op_gemm.infer(g, node, err);
}
static bool pool_relu_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return zt_op_max_pool_grad.infer(g, node, err);
}
static double conv_relu_flops(const struct zt_graph *g, int node) {
    return zt_op_conv.flops(g, node);
}
static double gemm_relu_flops(const struct zt_graph *g, int node) {
    return zt_op_gemm.flops(g, node);
}

static bool then_relu(const struct zt_call *call, const struct zt_op *row, struct zt_err *err) {
    return zt_fuse_run(call, row, &(struct zt_fused_call){ call->in, call->in_count, call->out, 1 }, err) &&
           zt_fuse_run(call, &zt_op_relu, &(struct zt_fused_call){ call->out, 1, call->out, 1 }, err);
}
static bool conv_relu_ref(const struct zt_call *call, struct zt_err *err) {
    return then_relu(call, &zt_op_conv, err);
}
static bool gemm_relu_ref(const struct zt_call *call, struct zt_err *err) {
    return then_relu(call, &zt_op_gemm, err);
}

/* MaxPoolGrad of the masked dy, which replaces dy's positions by one outside every window where y is not positive. */
static bool pool_relu_grad_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *dy = &call->in[0], *y = &call->in[2];
    int64_t count = zt_shape_count(&dy->shape);
    size_t bytes = zt_dtype_bytes(dy->dtype);
    struct zt_arena *arena = zt_arena_create();
    struct zt_view masked = *dy, in[2] = { masked, call->in[1] };
    in[0].data = zt_arena_alloc(arena, (size_t)count * bytes);
    double g[ZT_ELEMENT_BLOCK], v[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block(dy->dtype, dy->data, at, 1, n, g);
        zt_load_block(y->dtype, y->data, at, 1, n, v);
        for (int64_t i = 0; i < n; i++)
            g[i] = v[i] <= 0 ? 0 : g[i];
        zt_store_block(dy->dtype, in[0].data, at, 1, n, g);
    }
    bool ok = zt_fuse_run(call, &zt_op_max_pool_grad, &(struct zt_fused_call){ in, 2, call->out, 1 }, err);
    zt_arena_destroy(arena);
    return ok;
}

#define PRODUCT_ROW                                                                                                    \
    .domain = "ztrain", .since = 1, ZT_ONE_OUT(2, 3), .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },        \
    .same_type = 1 << 1 | 1 << 2, .attrs = zt_fused_attrs
const struct zt_op zt_op_conv_relu = {
    .name = "ConvRelu",
    PRODUCT_ROW,
    .flags = ZT_OP_HALF | ZT_OP_WINDOWS,
    .infer = conv_relu_infer,
    .flops = conv_relu_flops,
    .kernel = { [ZT_REF] = { .run = conv_relu_ref },
                [ZT_CPU] = ZT_IF_DNNL_WITH(zt_conv_cpu, .share = zt_conv_cpu_share),
                [ZT_CUDA] = ZT_ON_CUDA(conv, zt_conv_takes_cuda) },
};
const struct zt_op zt_op_gemm_relu = {
    .name = "GemmRelu",
    PRODUCT_ROW,
    .flags = ZT_OP_HALF | ZT_OP_PRODUCT,
    .infer = gemm_relu_infer,
    .flops = gemm_relu_flops,
    .kernel = { [ZT_REF] = { .run = gemm_relu_ref }, [ZT_CPU] = ZT_ON_CPU(zt_matmul_cpu) },
};
const struct zt_op zt_op_max_pool_relu_grad = {
    .name = "MaxPoolReluGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT },
    .same_type = 1 << 2,
    .attrs = zt_fused_attrs,
    .infer = pool_relu_grad_infer,
    .kernel = { [ZT_REF] = { .run = pool_relu_grad_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_max_pool_grad_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(max_pool_grad, zt_pool_takes_cuda) },
};

/* ---- patterns ---- */

/* A product and its fused form. */
struct product {
    const char *op_type, *fused;
};

/* cuDNN has no engine for ReLU behind a convolution without bias. */
static bool fuse_product(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend backend,
                         const struct product *product, struct zt_err *err) {
    if (strcmp(g->nodes[node]->op_type, "Relu") != 0)
        return false;
    int from = zt_fuse_producer(g, node, 0, product->op_type, true);
    if (from < 0 || !zt_op_takes(g, from, backend) || (backend == ZT_CUDA && !zt_in(g, from, 2)))
        return false;
    const struct zt_node p = *g->nodes[from];
    g->nodes[from]->dead = true;
    zt_fuse_replace(g, table, node, &(struct zt_fused_node){ product->fused, p.in, p.in_count, NULL, 0, &p }, err);
    return true;
}

static bool fuse_pool_grad(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend backend,
                           struct zt_err *err) {
    if (strcmp(g->nodes[node]->op_type, "ReluGrad") != 0)
        return false;
    int from = zt_fuse_producer(g, node, 0, "MaxPoolGrad", true);
    if (from < 0 || !zt_op_takes(g, from, backend))
        return false;
    const struct zt_node grad = *g->nodes[from];
    int pool = g->values[grad.in[1]]->producer;
    if (pool < 0 || strcmp(g->nodes[pool]->op_type, "MaxPoolTrain") != 0 ||
        g->nodes[pool]->in[0] != g->nodes[node]->in[1])
        return false;
    const int in[3] = { grad.in[0], grad.in[1], g->nodes[pool]->out[0] };
    g->nodes[from]->dead = true;
    zt_fuse_replace(g, table, node, &(struct zt_fused_node){ "MaxPoolReluGrad", in, 3, NULL, 0, &grad }, err);
    return true;
}

static bool fuse_conv(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend on,
                      struct zt_err *err) {
    return fuse_product(g, table, node, on, &(struct product){ "Conv", "ConvRelu" }, err);
}
static bool fuse_gemm(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    return fuse_product(g, table, node, ZT_CPU, &(struct product){ "Gemm", "GemmRelu" }, err);
}
const struct zt_pattern zt_pattern_conv_relu = { .name = "conv_relu",
                                                 .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                 .apply_on = fuse_conv };
const struct zt_pattern zt_pattern_gemm_relu = { "gemm_relu", 1 << ZT_CPU, fuse_gemm };
const struct zt_pattern zt_pattern_pool_relu_grad = { .name = "pool_relu_grad",
                                                      .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                      .apply_on = fuse_pool_grad };
