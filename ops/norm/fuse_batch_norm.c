/* The running statistics of many batch normalisations in one node:
 *
 *     ztrain.BatchNormStatistics(mean, inv_std, old mean, old var, ...) -> new mean, new var, ...
 *
 *     new = old momentum + batch (1 - momentum),  var = max(0, 1 / inv_std^2 - epsilon)
 *
 * four inputs and two outputs a normalisation, all [its channels].
 *
 *     batch_norm_statistics    BatchNormTrain, BatchNormRelu of a half type whose running statistics the next step
 *                              alone reads
 *
 * On a GPU each such node launches a kernel for a few hundred numbers; ResNet-50 has 53. */
#include "ops/norm/launch_batch_norm.h"
#include "graph/passes/fusion/fuse.h"
#include "ops/norm/kernels.h"
#include "ops/norm/norm.h"
#include "ops/kernel/shape.h"

#include <string.h>

static const struct zt_attr_spec attrs[] = { { "epsilon", ZT_ATTR_FLOAT }, { "momentum", ZT_ATTR_FLOAT }, { 0 } };

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    if (n->in_count % 4 != 0 || n->out_count != n->in_count / 2)
        return zt_node_fail(g, node, err, "has %d inputs and %d outputs, wants four and two a normalisation",
                            n->in_count, n->out_count);
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_shape *shape = &zt_in(g, node, i)->shape, *first = &zt_in(g, node, i / 4 * 4)->shape;
        if (shape->rank != 1 || !zt_shape_equal(shape, first))
            return zt_node_fail(g, node, err, "input \"%s\" is not a number a channel, as \"%s\" is",
                                zt_in(g, node, i)->name, zt_in(g, node, i / 4 * 4)->name);
        if (i < n->out_count)
            zt_set_out(g, node, i, zt_in(g, node, i / 2 * 4 + 2 + i % 2)->dtype, &zt_in(g, node, i / 2 * 4)->shape);
    }
    return true;
}

static double at(const struct zt_view *v, int64_t i) {
    return zt_load_double(v->dtype, v->data, i);
}

static bool ref(const struct zt_call *call, struct zt_err *err) {
    const double momentum = (double)zt_attr_float(call->node, "momentum", 0.9F),
                 epsilon = (double)zt_attr_float(call->node, "epsilon", 1e-5F);
    (void)err;
    for (int k = 0; k < call->in_count / 4; k++) {
        const struct zt_view *in = &call->in[4 * k], *out = &call->out[2 * k];
        for (int64_t c = 0; c < zt_shape_count(&in->shape); c++) {
            const double inv_std = at(&in[1], c), var = 1 / (inv_std * inv_std) - epsilon;
            const double batch[2] = { at(&in[0], c), var < 0 ? 0 : var };
            for (int i = 0; i < 2; i++)
                zt_store_double(out[i].dtype, out[i].data, c, at(&in[2 + i], c) * momentum + batch[i] * (1 - momentum));
        }
    }
    return true;
}

static bool all_float(const struct zt_graph *g, int node) {
    bool all = true;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        all &= zt_in(g, node, i)->dtype == ZT_FLOAT;
    return all;
}

const struct zt_op zt_op_batch_norm_statistics = {
    .name = "BatchNormStatistics",
    .domain = "ztrain",
    .since = 1,
    .min_in = 4,
    .min_out = 2,
    .max_out = 2 * ZT_RUNNING_NORMS,
    .flags = ZT_OP_VARIADIC | ZT_OP_LIGHT,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = attrs,
    .infer = infer,
    .kernel = { [ZT_REF] = { .run = ref }, [ZT_CUDA] = ZT_ON_CUDA(batch_norm_statistics, all_float) },
};

/* ---- the pattern ---- */

extern const struct zt_op zt_op_batch_norm_train, zt_op_batch_norm_relu;

static bool is_for_next_step(const struct zt_graph *g, int value) {
    bool written = false;
    for (int i = 0; i < g->write_back_count; i++)
        written |= g->write_backs[i].value == value;
    return written && zt_graph_users(g, value, NULL) == 0;
}

static bool has_statistics(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    if (n->dead || (n->op != &zt_op_batch_norm_train && n->op != &zt_op_batch_norm_relu) ||
        !zt_dtype_is_half(zt_in(g, node, 0)->dtype) || !zt_op_takes(g, node, ZT_CUDA))
        return false;
    bool all = true;
    for (int k = 1; k <= 4; k++)
        all &= zt_out(g, node, k) && zt_out(g, node, k)->dtype == ZT_FLOAT && (k > 2 || is_for_next_step(g, n->out[k]));
    return all;
}

static bool go_together(const struct zt_node *a, const struct zt_node *b) {
    return a->phase == b->phase && a->stage == b->stage &&
           zt_attr_float(a, "momentum", 0.9F) == zt_attr_float(b, "momentum", 0.9F) &&
           zt_attr_float(a, "epsilon", 1e-5F) == zt_attr_float(b, "epsilon", 1e-5F);
}

/* `node` is the last of those that it takes along. */
static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    int in[4 * ZT_RUNNING_NORMS], out[2 * ZT_RUNNING_NORMS], count = 0;
    if (!has_statistics(g, node))
        return false;
    const struct zt_node *last = g->nodes[node];
    for (int k = node; k >= 0 && count < ZT_RUNNING_NORMS; k--) {
        struct zt_node *n = g->nodes[k];
        if (!has_statistics(g, k) || !go_together(n, last))
            continue;
        memcpy(in + 4 * count, (int[]){ n->out[3], n->out[4], n->in[3], n->in[4] }, 4 * sizeof *in);
        memcpy(out + 2 * count, n->out + 1, 2 * sizeof *out);
        count++;
        n->out[1] = n->out[2] = -1;
    }
    const char *name = zt_arena_printf(g->arena, "statistics of %s", last->name);
    const int made = zt_fuse_add(
        g, last, &(struct zt_node_spec){ name, "BatchNormStatistics", "ztrain", 1, in, 4 * count, out, 2 * count });
    zt_node_set_float(g, made, "epsilon", zt_attr_float(last, "epsilon", 1e-5F));
    zt_node_set_float(g, made, "momentum", zt_attr_float(last, "momentum", 0.9F));
    for (int i = 0; i < 2 * count; i++)
        g->values[out[i]]->producer = made;
    return zt_fuse_settle(g, table, made, err);
}

const struct zt_pattern zt_pattern_batch_norm_statistics = { "batch_norm_statistics", 1 << ZT_CUDA, apply };
