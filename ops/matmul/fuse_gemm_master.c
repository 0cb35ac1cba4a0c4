/* A product of bfloat16 by a weight of float, the master weight, which the kernel rounds while it packs it: no copy of
 * the weight in bfloat16 is made, neither after an update nor for a micro-batch.
 *
 *     ztrain.GemmMaster(a, w[, c]) -> y        y = alpha op(a) round(op(w)) + beta c, of a's type; with relu max(y, 0)
 *
 * op exchanges the last two axes where transA (transB) is set, and round() is to a's type. c is of float and broadcast
 * to y.
 *
 *     gemm_master    MatMul(a, Cast(w)), of Gemm and GemmRelu with Cast(c) or without c, and BatchMatMul too; forward,
 *                    and the gradient of a, where zt_product_cpu_own_bfloat() says so. w and c are made of parameters
 *                    alone
 *
 * The sum is rounded once, and c is not. */
#include "graph/passes/fusion/fuse.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/product_cpu.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <stdlib.h>
#include <string.h>

static const struct zt_attr_spec attrs[] = { { "alpha", ZT_ATTR_FLOAT }, { "beta", ZT_ATTR_FLOAT },
                                             { "relu", ZT_ATTR_INT },    { "transA", ZT_ATTR_INT },
                                             { "transB", ZT_ATTR_INT },  { 0 } };

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *c = zt_in(g, node, 2);
    struct zt_matmul m;
    struct zt_shape both;
    if (!zt_matmul_read_node(g, node, &m, err) || (c && !zt_broadcast(g, node, &c->shape, &m.out, &both, err)))
        return false;
    if (c && (c->shape.rank > 2 || !zt_shape_equal(&both, &m.out)))
        return zt_node_fail(g, node, err, "input \"%s\" does not broadcast to the product", c->name);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &m.out);
    return true;
}

/* The weight in the type of a. */
static void *rounded(struct zt_arena *arena, const struct zt_view *w, enum zt_dtype dtype) {
    const int64_t count = zt_shape_count(&w->shape);
    void *to = zt_arena_alloc(arena, (size_t)count * zt_dtype_bytes(dtype));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(dtype, to, i, zt_load_double(w->dtype, w->data, i));
    return to;
}

/* Element i of y. */
static double finished(const struct zt_call *call, const struct zt_view *sums, int64_t i) {
    const struct zt_view *c = call->in_count > 2 && call->in[2].data ? &call->in[2] : NULL;
    const int64_t n = sums->shape.dim[sums->shape.rank - 1];
    double y = zt_load_double(sums->dtype, sums->data, i);
    if (c) {
        const int64_t cols = c->shape.rank > 0 ? c->shape.dim[c->shape.rank - 1] : 1,
                      rows = c->shape.rank > 1 ? c->shape.dim[0] : 1;
        y += (double)zt_attr_float(call->node, "beta", 1) *
             zt_load_double(c->dtype, c->data, (rows > 1 ? i / n * cols : 0) + (cols > 1 ? i % n : 0));
    }
    return zt_attr_int(call->node, "relu", 0) && y < 0 ? 0 : y;
}

static bool ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    struct zt_arena *arena = zt_arena_create();
    struct zt_product p = { .dtype = call->in[0].dtype,
                            .y_dtype = call->in[0].dtype == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT,
                            .a = call->in[0].data,
                            .b = rounded(arena, &call->in[1], call->in[0].dtype),
                            .alpha = (double)zt_attr_float(call->node, "alpha", 1),
                            .threads = call->threads };
    const bool ok = zt_matmul_read_node(call->graph, zt_call_node(call), &p.geometry, err);
    const int64_t count = ok ? zt_shape_count(&y->shape) : 0;
    p.y = zt_arena_alloc(arena, (size_t)count * zt_dtype_bytes(p.y_dtype));
    if (ok)
        zt_product_run(&p);
    const struct zt_view sums = { p.y_dtype, y->shape, p.y, NULL };
    for (int64_t i = 0; i < count; i++)
        zt_store_double(y->dtype, y->data, i, finished(call, &sums, i));
    zt_arena_destroy(arena);
    return ok;
}

const struct zt_op zt_op_gemm_master = {
    .name = "GemmMaster",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 3),
    .flags = ZT_OP_PRODUCT,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .attrs = attrs,
    .infer = infer,
    .flops = zt_matmul_flops,
    .kernel = { [ZT_REF] = { .run = ref }, [ZT_CPU] = ZT_ON_CPU(zt_matmul_cpu) },
};

/* ---- the pattern ---- */

extern const struct zt_op zt_op_matmul, zt_op_gemm, zt_op_batch_matmul;

/* The parameter in float of which input `in` is the Cast; -1: none. */
static int master_of(const struct zt_graph *g, int node, int in) {
    const struct zt_value *v = zt_in(g, node, in);
    const int cast = v && v->origin == ZT_FROM_NODE ? v->producer : -1;
    if (cast < 0 || strcmp(g->nodes[cast]->op_type, "Cast") != 0 || zt_in(g, cast, 0)->dtype != ZT_FLOAT)
        return -1;
    return zt_value_from_params(g, g->nodes[cast]->in[0]) ? g->nodes[cast]->in[0] : -1;
}

static bool is_gemm_relu(const struct zt_node *n) {
    return strcmp(n->op_type, "GemmRelu") == 0; /* its row is of a later family */
}

static bool is_product(const struct zt_graph *g, int node) {
    const struct zt_op *op = g->nodes[node]->op;
    struct zt_product_cpu p;
    return (op == &zt_op_matmul || op == &zt_op_gemm || op == &zt_op_batch_matmul || is_gemm_relu(g->nodes[node])) &&
           zt_out(g, node, 0)->dtype == ZT_BFLOAT16 && zt_in(g, node, 1)->shape.rank == 2 &&
           zt_simd_gemm_of_bfloat_by_float() && zt_product_cpu_read(g, node, &p) && zt_product_cpu_own_bfloat(&p);
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    if (!is_product(g, node))
        return false;
    const struct zt_node *n = g->nodes[node];
    const int count = zt_in(g, node, 2) ? 3 : 2;
    int in[3] = { n->in[0] }, cast[3] = { 0 };
    for (int i = 1; i < count; i++) {
        in[i] = master_of(g, node, i);
        cast[i] = n->in[i];
        if (in[i] < 0)
            return false;
    }
    const struct zt_node like = *n;
    if (!zt_fuse_replace(g, table, node, &(struct zt_fused_node){ "GemmMaster", in, count, NULL, 0, &like }, err))
        return false;
    if (is_gemm_relu(&like))
        zt_node_set_int(g, g->node_count - 1, "relu", 1);
    for (int i = 1; i < count; i++)
        zt_fuse_drop(g, cast[i]);
    return true;
}

const struct zt_pattern zt_pattern_gemm_master = { "gemm_master", 1 << ZT_CPU, apply };
