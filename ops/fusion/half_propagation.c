/* On CUDA a node between casts reads and writes the half type itself:
 *
 *     a = Cast(x)    b = LayerNormalization(a, scale, bias)    y = Cast(b)       =>      y = LayerNormalization(x, ..)
 *
 * The kernels compute in fp32 for every input type and round once, as before. The casts and their fp32 tensors
 * disappear, among them tensors saved for the backward phase. On the CPU the half pass does this (ZT_OP_PASSES_HALF).
 *
 * Views may stand between the casts and the node. The table lists the rows between products and elementwise nodes,
 * which the half pass handles: norms, pools, losses, and ops that move elements. full_in and full_out of a row name the
 * tensors that stay fp32. */
#include "graph/passes/fusion/fuse.h"
#include "ops/fusion/kernels.h"

#include <string.h>

struct span {
    const char *op_type, *domain;
};
static const struct span spans[] = {
    { "LayerNormalization", "" },
    { "RMSNormalization", "" },
    { "InstanceNormalization", "" },
    { "GroupNormalization", "" },
    { "NormStats", "ztrain" },
    { "NormGrad", "ztrain" },
    { "BatchNormalization", "" },
    { "BatchNormTrain", "ztrain" },
    { "BatchNormSync", "ztrain" },
    { "BatchNormGrad", "ztrain" },
    { "BatchNormFixedGrad", "ztrain" },
    { "BatchNormSyncGrad", "ztrain" },
    { "MaxPool", "" },
    { "MaxPoolTrain", "ztrain" },
    { "MaxPoolGrad", "ztrain" },
    { "AveragePool", "" },
    { "AveragePoolGrad", "ztrain" },
    { "GlobalAveragePool", "" },
    { "DropoutTrain", "ztrain" },
    { "Concat", "" },
    { "Split", "" },
    { "Slice", "" },
    { "SliceGrad", "ztrain" },
    { "CrossEntropy", "ztrain" },
    { "CrossEntropyGrad", "ztrain" },
};

static bool is_span(const struct zt_node *n) {
    for (const struct span *s = spans; s < spans + sizeof spans / sizeof *spans; s++)
        if (strcmp(n->op_type, s->op_type) == 0 && strcmp(n->domain, s->domain) == 0)
            return true;
    return false;
}

/* Whether a node is a cast from a half type to float, or `back` to one. */
static bool is_cast(const struct zt_graph *g, int node, bool back) {
    const struct zt_node *n = g->nodes[node];
    return !n->dead && strcmp(n->op_type, "Cast") == 0 &&
           zt_dtype_is_half(g->values[back ? n->out[0] : n->in[0]]->dtype) &&
           g->values[back ? n->in[0] : n->out[0]]->dtype == ZT_FLOAT;
}

/* The node of this stage that computes a value, in any phase; -1: none. */
static int maker_of(const struct zt_graph *g, int node, int value) {
    const struct zt_value *v = value >= 0 ? g->values[value] : NULL;
    const int from = v && v->origin == ZT_FROM_NODE ? v->producer : -1;
    return from >= 0 && g->nodes[from]->stage == g->nodes[node]->stage ? from : -1;
}

/* Whether a value was cast from a half type, or is a view of such a value. */
static bool was_half(const struct zt_graph *g, int node, int value) {
    int from = maker_of(g, node, value);
    while (from >= 0 && zt_op_is_view(g->nodes[from]))
        from = maker_of(g, node, g->nodes[from]->in[0]);
    return from >= 0 && is_cast(g, from, false);
}

/* The half value that a value was cast from, or a view of it; -1 on errors. */
static int half_of(struct zt_graph *g, int node, int value, struct zt_err *err) {
    const int from = g->values[value]->producer;
    const struct zt_node n = *g->nodes[from];
    if (!zt_op_is_view(&n))
        return n.in[0];
    int *in = zt_arena_copy(g->arena, n.in, (size_t)n.in_count * sizeof *in);
    in[0] = half_of(g, node, n.in[0], err);
    const int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    return in[0] >= 0 && zt_op_infer(g, zt_graph_copy_node(g, from, node, in, &out), err) ? out : -1;
}

/* The cast to a half type that alone reads an output, or -1. */
static int only_reader(const struct zt_graph *g, int node, int out) {
    const struct zt_node *n = g->nodes[node];
    int reader = -1;
    return n->out[out] >= 0 && zt_graph_users(g, n->out[out], &reader) == 1 && !zt_graph_is_output(g, n->out[out]) &&
                   g->nodes[reader]->stage == n->stage && g->nodes[reader]->phase == n->phase &&
                   is_cast(g, reader, true)
               ? reader
               : -1;
}

/* Whether input i of a node is an activation. */
static bool takes_half(const struct zt_graph *g, int node, int i) {
    const struct zt_value *v = zt_in(g, node, i);
    return v && v->dtype == ZT_FLOAT && !zt_op_mask_has(g->nodes[node]->op->full_in, i);
}

/* Whether output i is. A first output that nothing reads counts. */
static bool gives_half(const struct zt_graph *g, int node, int i) {
    const struct zt_value *v = zt_out(g, node, i);
    return (v ? v->dtype == ZT_FLOAT : i == 0) && !zt_op_mask_has(g->nodes[node]->op->full_out, i);
}

static bool stands_between(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    bool between = true;
    for (int i = 0; between && i < n->out_count; i++)
        between = !gives_half(g, node, i) || only_reader(g, node, i) >= 0;
    for (int i = 0; between && i < n->in_count; i++)
        between = !takes_half(g, node, i) || was_half(g, node, n->in[i]);
    return between;
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    (void)table;
    const struct zt_node n = *g->nodes[node];
    if (!is_span(&n) || !stands_between(g, node))
        return false;
    int *in = zt_arena_copy(g->arena, n.in, (size_t)n.in_count * sizeof *in);
    int *out = zt_arena_copy(g->arena, n.out, (size_t)n.out_count * sizeof *out);
    for (int i = 0; i < n.in_count; i++)
        if (takes_half(g, node, i) && (in[i] = half_of(g, node, n.in[i], err)) < 0)
            return false;
    for (int i = 0; i < n.out_count; i++) {
        if (!gives_half(g, node, i))
            continue;
        const int reader = only_reader(g, node, i);
        out[i] = g->nodes[reader]->out[0];
        g->nodes[reader]->dead = true;
    }
    g->nodes[node]->dead = true;
    const int made = zt_graph_copy_node(g, node, node, in, out);
    for (int i = 0; i < n.in_count; i++)
        if (in[i] != n.in[i])
            zt_fuse_drop(g, n.in[i]);
    return zt_op_infer(g, made, err);
}

const struct zt_pattern zt_pattern_half_propagation = { "half_propagation", 1 << ZT_CUDA, apply };
