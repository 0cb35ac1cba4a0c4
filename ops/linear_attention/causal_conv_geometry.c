/* The geometry of CausalConvWithState, read from the node (causal_conv.h). */
#include "ops/linear_attention/causal_conv.h"

#include "ops/linear_attention/linear.h"
#include "ops/kernel/shape.h"

#include <string.h>

bool zt_causal_conv_read(const struct zt_graph *g, int node, struct zt_launch_causal_conv *c, struct zt_err *err) {
    const char *activation = zt_attr_text(g->nodes[node], "activation", "none");
    const struct zt_shape *x = &zt_in(g, node, ZT_CAUSAL_X)->shape, *w = &zt_in(g, node, ZT_CAUSAL_W)->shape;
    const struct zt_value *bias = zt_in(g, node, ZT_CAUSAL_BIAS), *past = zt_in(g, node, ZT_CAUSAL_PAST);
    *c = (struct zt_launch_causal_conv){ .silu = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0 };
    if (!c->silu && strcmp(activation, "none") != 0)
        return zt_node_fail(g, node, err, "activation is \"%s\", wants none, silu or swish", activation);
    if (x->rank != 3)
        return zt_linear_attention_shape_fail(g, node, ZT_CAUSAL_X, "[batch, channels, length]", err);
    c->batch = x->dim[0], c->channels = x->dim[1], c->length = x->dim[2];
    if (w->rank != 3 || w->dim[0] != c->channels || w->dim[1] != 1 || w->dim[2] < 1)
        return zt_linear_attention_shape_fail(g, node, ZT_CAUSAL_W, "[channels, 1, kernel]", err);
    c->kernel = w->dim[2];
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != c->channels))
        return zt_linear_attention_shape_fail(g, node, ZT_CAUSAL_BIAS, "[channels]", err);
    const struct zt_shape state = { 3, { c->batch, c->channels, c->kernel - 1 } };
    if (past && !zt_shape_equal(&past->shape, &state))
        return zt_linear_attention_shape_fail(g, node, ZT_CAUSAL_PAST, "[batch, channels, kernel - 1]", err);
    int64_t all;
    return zt_ops_dim_product(g, node, c->length, 64, &all, err) &&
           zt_ops_dim_product(g, node, c->kernel, 64, &all, err) &&
           zt_ops_dim_product(g, node, c->length + c->kernel + 64, 64 * (int64_t)sizeof(double), &all, err);
}
