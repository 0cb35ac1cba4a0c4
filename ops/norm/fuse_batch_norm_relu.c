/* Batch normalisation in training form and what follows it, a pass over the activations in place of two or three:
 *
 *     ztrain.BatchNormRelu(x, scale, b, mean, var[, z]) -> y, new mean, new var, batch mean, inv_std
 *     ztrain.BatchNormReluGrad(dy, x, scale, batch mean, inv_std, y) -> dx, dscale, db[, dz]
 *
 *     y = max(BatchNormTrain(x, ...) + z, 0)        dz = dy where y > 0, else 0;  dx, ... = BatchNormGrad(dz, x, ...)
 *
 * z is what a residual network adds. NaN passes as in Relu and ReluGrad. Our own kernels round the sum once.
 *
 *     batch_norm_relu         Relu(BatchNormTrain) or Relu(Add(BatchNormTrain, z)), nothing else reading in between
 *     batch_norm_relu_grad    BatchNormGrad(ReluGrad(dy, y)); dz is written where others read it
 *
 * On a GPU a ReluGrad whose dy an elementwise node makes for it alone is left to that node's chain
 * (fuse_elementwise.c): the sum of a residual's two gradients is masked as it is added up. The CPU fuses planes in
 * float. */
#include "ops/norm/launch_batch_norm.h"
#include "graph/passes/fusion/fuse.h"
#include "ops/elementwise/pointwise.h"
#include "ops/norm/kernels.h"
#include "ops/norm/norm.h"
#include "ops/kernel/shape.h"

#include <string.h>

extern const struct zt_op zt_op_add, zt_op_batch_norm_train, zt_op_batch_norm_grad, zt_op_relu, zt_op_relu_grad;

enum { STATISTICS_END = 5, LAST = 5 }; /* inputs that hold a number a channel end there; LAST: z, y */

/* ---- rows ---- */

static bool like_x(const struct zt_graph *g, int node, int x, int in, struct zt_err *err) {
    const struct zt_value *a = zt_in(g, node, x), *b = zt_in(g, node, in);
    if (b && !zt_shape_equal(&a->shape, &b->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", b->name, a->name);
    return true;
}

static bool relu_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read_to(g, node, 0, STATISTICS_END, &bn, err) || !like_x(g, node, 0, LAST, err))
        return false;
    zt_batch_norm_train_outs(g, node);
    return true;
}

static bool relu_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read_to(g, node, 1, STATISTICS_END, &bn, err) || !like_x(g, node, 1, 0, err) ||
        !like_x(g, node, 1, LAST, err))
        return false;
    zt_batch_norm_grad_outs(g, node);
    zt_set_out(g, node, 3, zt_in(g, node, 0)->dtype, &zt_in(g, node, 0)->shape);
    return true;
}

static bool relu_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    const bool adds = call->in_count > LAST && call->in[LAST].data;
    return zt_fuse_run(call, &zt_op_batch_norm_train,
                       &(struct zt_fused_call){ call->in, STATISTICS_END, call->out, call->out_count }, err) &&
           (!adds || zt_fuse_run(call, &zt_op_add,
                                 &(struct zt_fused_call){ (struct zt_view[]){ *y, call->in[LAST] }, 2, y, 1 }, err)) &&
           zt_fuse_run(call, &zt_op_relu, &(struct zt_fused_call){ y, 1, y, 1 }, err);
}

static bool relu_grad_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *in = call->in;
    const bool gives = call->out_count > 3 && call->out[3].data;
    struct zt_arena *arena = zt_arena_create();
    struct zt_view dz = gives ? call->out[3] : in[0];
    if (!gives)
        dz.data = zt_arena_alloc(arena, (size_t)zt_shape_count(&dz.shape) * zt_dtype_bytes(dz.dtype));
    const struct zt_view masked[STATISTICS_END] = { dz, in[1], in[2], in[3], in[4] };
    bool ok =
        zt_fuse_run(call, &zt_op_relu_grad, &(struct zt_fused_call){ (struct zt_view[]){ in[0], in[LAST] }, 2, &dz, 1 },
                    err) &&
        zt_fuse_run(call, &zt_op_batch_norm_grad, &(struct zt_fused_call){ masked, STATISTICS_END, call->out, 3 }, err);
    zt_arena_destroy(arena);
    return ok;
}

static bool describe_from(const struct zt_graph *g, int node, int x, struct zt_launch_batch_norm *to,
                          struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read_to(g, node, x, STATISTICS_END, &bn, err))
        return false;
    *to = (struct zt_launch_batch_norm){ .n = bn.n,
                                         .channels = bn.channels,
                                         .spatial = bn.spatial,
                                         .epsilon = (float)bn.epsilon,
                                         .momentum = (float)bn.momentum,
                                         .relu = true };
    return true;
}
static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe_from(g, node, 0, to, err);
}
static bool describe_grad(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe_from(g, node, 1, to, err);
}

static const struct zt_attr_spec attrs[] = { { "epsilon", ZT_ATTR_FLOAT },
                                             { "momentum", ZT_ATTR_FLOAT },
                                             { "spatial", ZT_ATTR_INT },
                                             { "training_mode", ZT_ATTR_INT },
                                             { 0 } };
#define FLOATS                                                                                                         \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .attrs = attrs
const struct zt_op zt_op_batch_norm_relu = {
    .name = "BatchNormRelu",
    .domain = "ztrain",
    .since = 1,
    .min_in = 5,
    .max_in = 6,
    .min_out = 5,
    .max_out = 5,
    FLOATS,
    .same_type = 1 << 5,
    .statistic_in = 1 << 3 | 1 << 4,
    .infer = relu_infer,
    .flops_each = 5,
    .kernel = { [ZT_REF] = { .run = relu_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_batch_norm_relu_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(batch_norm_relu, zt_cuda_any_floats, describe) },
};
const struct zt_op zt_op_batch_norm_relu_grad = {
    .name = "BatchNormReluGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 6,
    .max_in = 6,
    .min_out = 1,
    .max_out = 4,
    FLOATS,
    .same_type = 1 << 1 | 1 << 5,
    .infer = relu_grad_infer,
    .flops_each = 10,
    .kernel = { [ZT_REF] = { .run = relu_grad_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_batch_norm_relu_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(batch_norm_relu_grad, zt_cuda_any_floats, describe_grad) },
};

/* ---- patterns ---- */

static bool is_op(const struct zt_graph *g, int node, const struct zt_op *op) {
    return node >= 0 && !g->nodes[node]->dead && g->nodes[node]->op == op;
}

/* Whether the back end has the fused kernels for what this node normalises, its input `x`. */
static bool has_kernels(const struct zt_graph *g, int node, int x, enum zt_backend backend) {
    const struct zt_value *v = zt_in(g, node, x);
    return zt_op_takes(g, node, backend) && zt_op_batch_norm_relu.kernel[backend].run &&
           (backend != ZT_CPU || v->shape.rank > 2);
}

/* The training form that alone makes input `in` for `node`, of a type and shape that the kernels know; -1. */
static int norm_before(const struct zt_graph *g, int node, int in, enum zt_backend backend) {
    const int from = zt_fuse_producer(g, node, in, zt_op_batch_norm_train.name, true);
    return from >= 0 && is_op(g, from, &zt_op_batch_norm_train) && has_kernels(g, from, 0, backend) ? from : -1;
}

/* Of a sum of two tensors of one shape the input that the normalisation makes; -1: neither. */
static int normalised_side(const struct zt_graph *g, int sum, enum zt_backend backend) {
    const struct zt_value *a = zt_in(g, sum, 0), *b = zt_in(g, sum, 1);
    if (g->nodes[sum]->domain[0] || !zt_shape_equal(&a->shape, &b->shape) ||
        g->nodes[sum]->in[0] == g->nodes[sum]->in[1])
        return -1;
    return norm_before(g, sum, 0, backend) >= 0 ? 0 : norm_before(g, sum, 1, backend) >= 0 ? 1 : -1;
}

static bool fuse_relu(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend backend,
                      struct zt_err *err) {
    if (!is_op(g, node, &zt_op_relu))
        return false;
    const int sum = zt_fuse_producer(g, node, 0, "Add", true), side = sum >= 0 ? normalised_side(g, sum, backend) : -1;
    const int from = side >= 0 ? norm_before(g, sum, side, backend) : norm_before(g, node, 0, backend);
    if (from < 0)
        return false;
    const struct zt_node norm = *g->nodes[from];
    int in[LAST + 1], out[5];
    memcpy(in, norm.in, STATISTICS_END * sizeof *in);
    memcpy(out, norm.out, sizeof out);
    in[LAST] = side >= 0 ? g->nodes[sum]->in[1 - side] : -1;
    out[0] = g->nodes[node]->out[0];
    g->nodes[from]->dead = true;
    if (side >= 0)
        g->nodes[sum]->dead = true;
    return zt_fuse_replace(
        g, table, node,
        &(struct zt_fused_node){ zt_op_batch_norm_relu.name, in, side >= 0 ? LAST + 1 : LAST, out, 5, &norm }, err);
}
const struct zt_pattern zt_pattern_batch_norm_relu = { .name = "batch_norm_relu",
                                                       .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                       .apply_on = fuse_relu };

/* Whether the node stands in a chain with the one that makes its input 0. */
static bool is_chained(const struct zt_graph *g, int node) {
    const int from = zt_fuse_producer(g, node, 0, NULL, true);
    return from >= 0 && g->nodes[from]->op->kernel[ZT_CUDA].describe == zt_pointwise_describe &&
           zt_op_takes(g, from, ZT_CUDA);
}

static bool fuse_relu_grad(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend backend,
                           struct zt_err *err) {
    const struct zt_node norm = *g->nodes[node];
    if (!is_op(g, node, &zt_op_batch_norm_grad) || norm.in_count != STATISTICS_END || !has_kernels(g, node, 1, backend))
        return false;
    const int from = zt_fuse_producer(g, node, 0, zt_op_relu_grad.name, false);
    if (!is_op(g, from, &zt_op_relu_grad) || (backend == ZT_CUDA && is_chained(g, from)))
        return false;
    const struct zt_node mask = *g->nodes[from];
    const bool alone = zt_fuse_read_only_by(g, mask.out[0], &node, 1);
    const int in[LAST + 1] = { mask.in[0], norm.in[1], norm.in[2], norm.in[3], norm.in[4], mask.in[1] };
    int out[4] = { -1, -1, -1, mask.out[0] };
    memcpy(out, norm.out, (size_t)(norm.out_count < 3 ? norm.out_count : 3) * sizeof *out);
    g->nodes[from]->dead = true;
    return zt_fuse_replace(
        g, table, node,
        &(struct zt_fused_node){ zt_op_batch_norm_relu_grad.name, in, LAST + 1, out, alone ? 3 : 4, &norm }, err);
}
const struct zt_pattern zt_pattern_batch_norm_relu_grad = { .name = "batch_norm_relu_grad",
                                                            .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                            .apply_on = fuse_relu_grad };
