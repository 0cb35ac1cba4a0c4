/* An Add behind a convolution or the gradient of its data becomes part of it: residuals, and the two gradients of what
 * they add.
 *
 *     ztrain.ConvAdd(x, w[, b], z) -> y                 y = Conv(x, w, b) + z
 *     ztrain.ConvGradInputAdd(w, dy, [none,] z) -> dx    dx = ConvGradInput(w, dy) + z
 *
 * z is input 3 of both and has the shape of the result. The sum is rounded as Add rounds it. The CPU fuses float and
 * one group: it adds where the result is still in a register or in cache. */
#include "graph/passes/fusion/fuse.h"
#include "ops/conv/conv.h"
#include "ops/conv/kernels.h"
#include "ops/kernel/shape.h"

#include <string.h>

extern const struct zt_op zt_op_add, zt_op_conv, zt_op_conv_grad_input;

/* ---- rows ---- */

static bool infer(struct zt_graph *g, int node, const struct zt_op *conv, struct zt_err *err) {
    if (!conv->infer(g, node, err))
        return false;
    const struct zt_value *z = zt_in(g, node, ZT_CONV_ADDED), *y = zt_out(g, node, 0);
    if (!z)
        return zt_node_fail(g, node, err, "input %d is missing", ZT_CONV_ADDED);
    if (!zt_shape_equal(&z->shape, &y->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", z->name, y->name);
    return true;
}
static bool conv_add_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return infer(g, node, &zt_op_conv, err);
}
static bool grad_input_add_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return infer(g, node, &zt_op_conv_grad_input, err);
}
static double conv_add_flops(const struct zt_graph *g, int node) {
    return zt_op_conv.flops(g, node);
}
static double grad_input_add_flops(const struct zt_graph *g, int node) {
    return zt_op_conv_grad_input.flops(g, node);
}

static bool then_add(const struct zt_call *call, const struct zt_op *conv, int conv_ins, struct zt_err *err) {
    const struct zt_view *y = call->out, sum[2] = { *y, call->in[ZT_CONV_ADDED] };
    return zt_fuse_run(call, conv, &(struct zt_fused_call){ call->in, conv_ins, y, 1 }, err) &&
           zt_fuse_run(call, &zt_op_add, &(struct zt_fused_call){ sum, 2, y, 1 }, err);
}
static bool conv_add_ref(const struct zt_call *call, struct zt_err *err) {
    return then_add(call, &zt_op_conv, ZT_CONV_ADDED, err);
}
static bool grad_input_add_ref(const struct zt_call *call, struct zt_err *err) {
    return then_add(call, &zt_op_conv_grad_input, 2, err);
}

#define ROW                                                                                                            \
    .domain = "ztrain", .since = 1, ZT_ONE_OUT(2, 4), .flags = ZT_OP_HALF | ZT_OP_WINDOWS,                             \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .same_type = 1 << 1 | 1 << 2 | 1 << 3,     \
    .attrs = zt_fused_attrs
const struct zt_op zt_op_conv_add = {
    .name = "ConvAdd",
    ROW,
    .infer = conv_add_infer,
    .flops = conv_add_flops,
    .kernel = { [ZT_REF] = { .run = conv_add_ref },
                [ZT_CPU] = ZT_IF_DNNL_WITH(zt_conv_cpu, .share = zt_conv_cpu_share) },
};
const struct zt_op zt_op_conv_grad_input_add = {
    .name = "ConvGradInputAdd",
    ROW,
    .infer = grad_input_add_infer,
    .flops = grad_input_add_flops,
    .kernel = { [ZT_REF] = { .run = grad_input_add_ref },
                [ZT_CPU] = ZT_IF_DNNL_WITH(zt_conv_grad_input_cpu, .share = zt_conv_cpu_share) },
};

/* ---- the pattern ---- */

/* The convolution of one group that alone makes input `side` of the sum in float, -1. */
static int conv_before(const struct zt_graph *g, int sum, int side) {
    int from = zt_fuse_producer(g, sum, side, "Conv", true);
    if (from < 0)
        from = zt_fuse_producer(g, sum, side, "ConvGradInput", true);
    if (from < 0 || zt_attr_int(g->nodes[from], "group", 1) != 1 || zt_in(g, sum, side)->dtype != ZT_FLOAT ||
        !zt_op_takes(g, from, ZT_CPU))
        return -1;
    return from;
}

static bool fuse_add(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_node sum = *g->nodes[node];
    if (sum.op != &zt_op_add || sum.in[0] == sum.in[1] ||
        !zt_shape_equal(&zt_in(g, node, 0)->shape, &zt_in(g, node, 1)->shape))
        return false;
    const int made[2] = { conv_before(g, node, 0), conv_before(g, node, 1) };
    const int side = made[1] > made[0]; /* the later one, so that neither waits for the other */
    if (made[side] < 0)
        return false;
    const struct zt_node conv = *g->nodes[made[side]];
    const int in[ZT_CONV_ADDED + 1] = { conv.in[0], conv.in[1], conv.in_count > 2 ? conv.in[2] : -1, sum.in[1 - side] };
    const char *fused = strcmp(conv.op_type, "Conv") == 0 ? zt_op_conv_add.name : zt_op_conv_grad_input_add.name;
    g->nodes[made[side]]->dead = true;
    return zt_fuse_replace(g, table, node, &(struct zt_fused_node){ fused, in, ZT_CONV_ADDED + 1, NULL, 0, &conv },
                           err);
}

const struct zt_pattern zt_pattern_conv_add = { "conv_add", 1 << ZT_CPU, fuse_add };
