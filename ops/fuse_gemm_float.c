/* A product of bfloat16 that is wanted in float, as gradients of weights are:
 *
 *     Cast(MatMul(a, b)), of Gemm without c and BatchMatMul too      =>      ztrain.GemmFloat(a, b) -> y
 *
 *     y = alpha op(a) op(b)       op exchanges the last two axes where transA (transB) is set
 *
 * cuBLASLt sums in fp32 and stores the sums as they are: nothing is rounded to bfloat16, and gradients of several
 * micro-batches are added in the product. */
#include "ops/cuda.h"
#include "ops/fuse.h"
#include "ops/matmul.h"
#include "ops/shape.h"

#include <string.h>

static const struct zt_attr_spec attrs[] = {
    { "alpha", ZT_ATTR_FLOAT }, { "transA", ZT_ATTR_INT }, { "transB", ZT_ATTR_INT }, { 0 }
};

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_matmul m;
    if (!zt_matmul_read_node(g, node, &m, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT, &m.out);
    return true;
}

static bool ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_product p = { .dtype = call->in[0].dtype,
                            .y_dtype = call->out[0].dtype,
                            .a = call->in[0].data,
                            .b = call->in[1].data,
                            .alpha = (double)zt_attr_float(call->node, "alpha", 1),
                            .y = call->out[0].data,
                            .threads = call->threads };
    if (!zt_matmul_read_node(call->graph, zt_call_node(call), &p.geometry, err))
        return false;
    zt_product_run(&p);
    return true;
}

const struct zt_op zt_op_gemm_float = {
    .name = "GemmFloat",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1,
    .attrs = attrs,
    .infer = infer,
    .flops = zt_matmul_flops,
    .kernel = { [ZT_REF] = { .run = ref }, [ZT_CUDA] = ZT_ON_CUDA(zt_cuda_matmul_float) },
};

/* ---- the pattern ---- */

extern const struct zt_op zt_op_matmul, zt_op_gemm, zt_op_batch_matmul;

static bool is_half_product(const struct zt_graph *g, int node) {
    const struct zt_op *op = g->nodes[node]->op;
    return (op == &zt_op_matmul || op == &zt_op_gemm || op == &zt_op_batch_matmul) &&
           zt_out(g, node, 0)->dtype == ZT_BFLOAT16 && !zt_in(g, node, 2) && zt_op_takes(g, node, ZT_CUDA);
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_node *cast = g->nodes[node];
    if (strcmp(cast->op_type, "Cast") != 0 || zt_out(g, node, 0)->dtype != ZT_FLOAT)
        return false;
    const int product = zt_fuse_producer(g, node, 0, NULL, true);
    if (product < 0 || !is_half_product(g, product))
        return false;
    const struct zt_node like = zt_fuse_attrs_without(g, g->nodes[product], "beta");
    g->nodes[node]->dead = true;
    return zt_fuse_replace(g, table, product, "GemmFloat", g->nodes[product]->in, 2, cast->out, 1, &like, err);
}

const struct zt_pattern zt_pattern_gemm_float = { "gemm_float", 1 << ZT_CUDA, apply };
