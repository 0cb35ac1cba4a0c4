/* The geometry of batch normalisation and the outputs of its training forms, read from the node (norm.h). */
#include "ops/norm/norm.h"

#include "ops/kernel/shape.h"

#include <string.h>

bool zt_batch_norm_read(const struct zt_graph *g, int node, int x, struct zt_batch_norm *to, struct zt_err *err) {
    return zt_batch_norm_read_to(g, node, x, g->nodes[node]->in_count, to, err);
}

bool zt_batch_norm_read_to(const struct zt_graph *g, int node, int x, int end, struct zt_batch_norm *to,
                           struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *value = zt_in(g, node, x);
    if (value->shape.rank < 2)
        return zt_node_fail(g, node, err, "input \"%s\" has rank %d, wants 2 or more (N, C, then spatial axes)",
                            value->name, value->shape.rank);
    if (zt_attr_int(n, "spatial", 1) != 1)
        return zt_node_fail(g, node, err, "spatial = 0 (statistics per activation) is not supported");
    *to =
        (struct zt_batch_norm){ value->shape.dim[0], value->shape.dim[1], zt_dims(&value->shape, 2, value->shape.rank),
                                (double)zt_attr_float(n, "epsilon", 1e-5f),
                                (double)zt_attr_float(n, "momentum", 0.9f) };
    for (int i = x + 1; i < end; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        char text[ZT_SHAPE_TEXT];
        if (v && (v->shape.rank != 1 || v->shape.dim[0] != to->channels))
            return zt_node_fail(g, node, err, "input \"%s\" has shape %s, wants [%lld], the channels of \"%s\"",
                                v->name, zt_shape_text(&v->shape, text), (long long)to->channels, value->name);
    }
    return true;
}

/* Statistics are stored in float; those of double in double. */
static enum zt_dtype statistics_type(enum zt_dtype x) {
    return x == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT;
}

void zt_batch_norm_train_outs(struct zt_graph *g, int node) {
    const struct zt_shape x = zt_in(g, node, 0)->shape, channels = { 1, { x.dim[1] } };
    const enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    zt_set_out(g, node, 0, dtype, &x);
    zt_set_out(g, node, 1, zt_in(g, node, 3)->dtype, &channels);
    zt_set_out(g, node, 2, zt_in(g, node, 4)->dtype, &channels);
    zt_set_out(g, node, 3, statistics_type(dtype), &channels);
    zt_set_out(g, node, 4, statistics_type(dtype), &channels);
}

void zt_batch_norm_grad_outs(struct zt_graph *g, int node) {
    const struct zt_value *x = zt_in(g, node, 1), *scale = zt_in(g, node, 2);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    zt_set_out(g, node, 1, scale->dtype, &scale->shape);
    zt_set_out(g, node, 2, scale->dtype, &scale->shape);
}

bool zt_batch_norm_is_sync(const struct zt_node *n) {
    return strncmp(n->op_type, "BatchNormSync", strlen("BatchNormSync")) == 0;
}

bool zt_batch_norm_add_ranks(const struct zt_call *call, double *sums, int64_t channels, struct zt_err *err) {
    const struct zt_group *peers = zt_attr_int(call->node, "alone", 0) ? NULL : call->group;
    return !peers || peers->sum(peers->with, sums, (int)(2 * channels + 1), err);
}
