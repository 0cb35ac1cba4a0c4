/* The gradient of a convolution's weights in a half type that the optimizer reads in float:
 *
 *     conv_float    ConvGradWeight and the Cast behind each of its outputs become one node, with attribute `to`
 *
 * The gradient of the bias, if any, is summed and stored in fp32. cuDNN computes the gradient of the weights in the
 * half type; one pass converts it to float and plain order, or adds it there over micro-batches. The CPU's kernels sum
 * in fp32 and then do not round. */
#include "graph/passes/fusion/fuse.h"

#include <string.h>

extern const struct zt_op zt_op_conv_grad_weight, zt_op_conv_transpose_grad_weight;

/* The Cast to float that alone reads the value, -1: none. */
static int cast_of(const struct zt_graph *g, int value, const struct zt_node *beside) {
    int node;
    if (zt_graph_users(g, value, &node) != 1 || zt_graph_is_output(g, value))
        return -1;
    const struct zt_node *n = g->nodes[node];
    const bool cast = n->domain[0] == 0 && strcmp(n->op_type, "Cast") == 0 && zt_out(g, node, 0)->dtype == ZT_FLOAT;
    return cast && n->phase == beside->phase && n->stage == beside->stage ? node : -1;
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend backend,
                  struct zt_err *err) {
    struct zt_node *n = g->nodes[node];
    int cast[2], out[2];
    if ((n->op != &zt_op_conv_grad_weight && n->op != &zt_op_conv_transpose_grad_weight) ||
        !zt_dtype_is_half(zt_out(g, node, 0)->dtype) || !zt_op_takes(g, node, backend))
        return false;
    for (int i = 0; i < n->out_count; i++) {
        cast[i] = zt_out(g, node, i) ? cast_of(g, n->out[i], n) : -1;
        if (cast[i] < 0)
            return false;
        out[i] = g->nodes[cast[i]]->out[0];
    }
    for (int i = 0; i < n->out_count; i++)
        g->nodes[cast[i]]->dead = true;
    struct zt_node like = zt_fuse_attrs_without(g, n, "to");
    like.attr[like.attr_count++] = (struct zt_attr){ .name = "to", .type = ZT_ATTR_INT, .i = ZT_FLOAT };
    zt_fuse_replace(g, table, node, &(struct zt_fused_node){ n->op_type, n->in, 2, out, n->out_count, &like }, err);
    return true;
}

const struct zt_pattern zt_pattern_conv_float = { .name = "conv_float",
                                                  .when = 1 << ZT_CPU | 1 << ZT_CUDA,
                                                  .apply_on = apply };
