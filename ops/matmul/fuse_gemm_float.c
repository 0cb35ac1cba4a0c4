/* A product of a half type whose result is read in float, such as gradients of weights, and the gradient of a bias with
 * it:
 *
 *     ztrain.GemmFloat(a, b) -> y[, s]       y = alpha op(a) op(b), s = sums over k of the operand that `sums` names
 *
 * op exchanges the last two axes where transA (transB) is set; k is the axis that the product sums over. s is of two
 * matrices: [m] of op(a) where sums is "a", [n] of op(b) where it is "b".
 *
 *     gemm_float    Cast(MatMul(a, b)), of Gemm without c and BatchMatMul too
 *     bias_grad     a GemmFloat, or a Gemm of float, and the ReduceSum over rows of one of its operands; a Cast or
 * Reshape of the operand may stand between
 *
 * The kernels sum in fp32 and store the sums as they are: nothing is rounded to half, and gradients of several
 * micro-batches are added in the product. */
#include "graph/passes/fusion/fuse.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/kernel/shape.h"

#include <string.h>

static const struct zt_attr_spec attrs[] = {
    { "alpha", ZT_ATTR_FLOAT }, { "sums", ZT_ATTR_STRING }, { "transA", ZT_ATTR_INT }, { "transB", ZT_ATTR_INT }, { 0 }
};

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_matmul m;
    if (!zt_matmul_read_node(g, node, &m, err))
        return false;
    const enum zt_dtype dtype = zt_in(g, node, 0)->dtype == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT;
    zt_set_out(g, node, 0, dtype, &m.out);
    if (!zt_out(g, node, 1))
        return true;
    const char *sums = zt_attr_text(g->nodes[node], "sums", "");
    const bool first = strcmp(sums, "a") == 0;
    if ((!first && strcmp(sums, "b") != 0) || zt_in(g, node, 0)->shape.rank != 2 || zt_in(g, node, 1)->shape.rank != 2)
        return zt_node_fail(g, node, err,
                            "sums \"%s\" is given for a second output, want \"a\" or \"b\" of two matrices", sums);
    zt_set_out(g, node, 1, dtype, &(struct zt_shape){ .rank = 1, .dim = { first ? m.m : m.n } });
    return true;
}

/* Sums over k of a side, in double. */
static void add_up(const struct zt_call *call, const struct zt_matmul *m) {
    const bool first = strcmp(zt_attr_text(call->node, "sums", ""), "a") == 0;
    const struct zt_view *side = &call->in[!first], *to = &call->out[1];
    const int64_t step = first ? m->a_row : m->b_col, over = first ? m->a_col : m->b_row;
    for (int64_t i = 0; i < (first ? m->m : m->n); i++) {
        double sum = 0;
        for (int64_t k = 0; k < m->k; k++)
            sum += zt_load_double(side->dtype, side->data, i * step + k * over);
        zt_store_double(to->dtype, to->data, i, sum);
    }
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
    if (call->out_count > 1 && call->out[1].data)
        add_up(call, &p.geometry);
    return true;
}

const struct zt_op zt_op_gemm_float = {
    .name = "GemmFloat",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 2,
    .flags = ZT_OP_PRODUCT,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1,
    .attrs = attrs,
    .infer = infer,
    .flops = zt_matmul_flops,
    .kernel = { [ZT_REF] = { .run = ref },
                [ZT_CPU] = ZT_ON_CPU(zt_gemm_float_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(matmul, zt_matmul_takes_cuda_float) },
};

/* ---- the patterns ---- */

extern const struct zt_op zt_op_matmul, zt_op_gemm, zt_op_batch_matmul;

static bool is_half_product(const struct zt_graph *g, int node) {
    const struct zt_op *op = g->nodes[node]->op;
    return (op == &zt_op_matmul || op == &zt_op_gemm || op == &zt_op_batch_matmul) &&
           zt_dtype_is_half(zt_out(g, node, 0)->dtype) && !zt_in(g, node, 2);
}

/* On the CPU: where its kernel of the fused node takes the product. */
static bool takes(const struct zt_graph *g, int node, enum zt_backend on) {
    return on == ZT_CPU ? zt_gemm_float_cpu_supports(g, node) : zt_op_takes(g, node, ZT_CUDA);
}

static bool make_float(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend on,
                       struct zt_err *err) {
    const struct zt_node *cast = g->nodes[node];
    if (strcmp(cast->op_type, "Cast") != 0 || zt_out(g, node, 0)->dtype != ZT_FLOAT)
        return false;
    const int product = zt_fuse_producer(g, node, 0, NULL, true);
    if (product < 0 || !is_half_product(g, product) || !takes(g, product, on))
        return false;
    const struct zt_node like = zt_fuse_attrs_without(g, g->nodes[product], "beta");
    g->nodes[node]->dead = true;
    return zt_fuse_replace(g, table, product,
                           &(struct zt_fused_node){ "GemmFloat", g->nodes[product]->in, 2, cast->out, 1, &like }, err);
}

/* The value before nodes that only reshape it or change its type. */
static int source_of(const struct zt_graph *g, int value) {
    for (int from; (from = g->values[value]->origin == ZT_FROM_NODE ? g->values[value]->producer : -1) >= 0;
         value = g->nodes[from]->in[0]) {
        const char *op_type = g->nodes[from]->op_type;
        if (strcmp(op_type, "Reshape") != 0 && strcmp(op_type, "Cast") != 0)
            break;
        if (g->values[g->nodes[from]->in[0]]->dtype != ZT_FLOAT &&
            !zt_dtype_is_half(g->values[g->nodes[from]->in[0]]->dtype))
            break;
    }
    return value;
}

/* Whether the node sums over all rows of its input to a vector of its last axis. */
static bool sums_rows(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    if (n->domain[0] || strcmp(n->op_type, "ReduceSum") != 0)
        return false;
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *y = &zt_out(g, node, 0)->shape;
    struct zt_reduction r;
    if (y->rank != 1 || x->rank < 2 || zt_out(g, node, 0)->dtype != ZT_FLOAT ||
        !zt_reduce_describe(g, node, &r, &(struct zt_err){ 0 }))
        return false;
    bool rows = true;
    for (int k = 0; k < r.axes; k++)
        rows &= r.over[k] == (k < r.axes - 1);
    return rows && y->dim[0] == x->dim[x->rank - 1];
}

/* The side of a product of two matrices whose sums over k are those of `value` over its rows: "a", "b", NULL: none. */
static const char *side_of(const struct zt_graph *g, int node, int value, enum zt_backend on) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &g->values[value]->shape;
    const bool is_gemm = n->op == &zt_op_gemm && zt_out(g, node, 0)->dtype == ZT_FLOAT && !zt_in(g, node, 2);
    if (n->dead || (!is_gemm && n->op != &zt_op_gemm_float) || zt_out(g, node, 1) || !takes(g, node, on))
        return NULL;
    for (int side = 0; side < 2; side++) {
        const struct zt_shape *s = &zt_in(g, node, side)->shape;
        const bool rows_are_k = (zt_attr_int(n, side ? "transB" : "transA", 0) != 0) == (side == 0);
        if (zt_in(g, node, 0)->shape.rank == 2 && s->rank == 2 && rows_are_k && s->dim[1] == x->dim[x->rank - 1] &&
            zt_shape_count(s) == zt_shape_count(x) && source_of(g, n->in[side]) == source_of(g, value))
            return side ? "b" : "a";
    }
    return NULL;
}

static bool add_sums(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend on,
                     struct zt_err *err) {
    const struct zt_node *sum = g->nodes[node];
    if (!sums_rows(g, node))
        return false;
    for (int k = 0; k < g->node_count; k++) {
        const struct zt_node *n = g->nodes[k];
        const char *side = n->phase == sum->phase && n->stage == sum->stage ? side_of(g, k, sum->in[0], on) : NULL;
        if (!side)
            continue;
        struct zt_node like = zt_fuse_attrs_without(g, n, "beta");
        like.attr[like.attr_count++] = (struct zt_attr){ .name = "sums", .type = ZT_ATTR_STRING, .s = (char *)side };
        const int out[2] = { n->out[0], sum->out[0] }, from = sum->in[0];
        g->nodes[node]->dead = true;
        zt_fuse_replace(g, table, k, &(struct zt_fused_node){ "GemmFloat", n->in, 2, out, 2, &like }, err);
        zt_fuse_drop(g, from);
        return true;
    }
    return false;
}

const struct zt_pattern zt_pattern_gemm_float = { .name = "gemm_float",
                                                  .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                  .apply_on = make_float };
const struct zt_pattern zt_pattern_bias_grad = { .name = "bias_grad",
                                                 .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                 .apply_on = add_sums };
