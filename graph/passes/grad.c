#include "graph/passes/grad.h"

#include <stdlib.h>
#include <string.h>

struct zt_grad {
    struct zt_graph *g;
    const struct zt_op_table *table;
    struct zt_err *err;
    bool failed, central;
    int node;    /* forward node whose rule runs; -1 between rules */
    int values;  /* values of the forward graph: only they have gradients */
    bool *leads; /* by value: something wanted lies behind it */
    int *sum;    /* by value: sum of the contributions so far; -1: none */
};

bool zt_grad_is_central(const struct zt_grad *b) {
    return b->central;
}

struct zt_graph *zt_grad_graph(struct zt_grad *b) {
    return b->g;
}

/* ---- emitting ---- */

bool zt_emit_node(struct zt_grad *b, const struct zt_emission *spec, int *out, int out_count) {
    const struct zt_node *like = spec->like;
    for (int i = 0; i < out_count; i++)
        out[i] = -1;
    if (b->failed)
        return false;
    struct zt_graph *g = b->g;
    struct zt_attr *copied = NULL;
    int copied_count = like ? like->attr_count : 0;
    if (copied_count)
        copied = zt_arena_copy(g->arena, like->attr, (size_t)copied_count * sizeof *copied);
    for (int i = 0; i < out_count; i++)
        out[i] = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const char *name = zt_arena_printf(g->arena, "grad of %s", b->node >= 0 ? g->nodes[b->node]->name : "the outputs");
    int opset = spec->domain[0] ? 1 : ZT_OPSET;
    int node = zt_graph_add_node(g, &(struct zt_node_spec){ name, spec->op_type, spec->domain, opset, spec->in,
                                                            spec->in_count, out, out_count });
    g->nodes[node]->phase = ZT_BACKWARD;
    g->nodes[node]->stage = b->node >= 0 ? g->nodes[b->node]->stage : 0;
    g->nodes[node]->attr = copied;
    g->nodes[node]->attr_count = copied_count;
    for (int i = 0; i < spec->attr_count; i++)
        zt_node_set_attr(g, node, &spec->attrs[i]);
    if (!zt_op_resolve(b->table, g, node, b->err) || !zt_op_infer(g, node, b->err))
        b->failed = true;
    return !b->failed;
}

int zt_emit(struct zt_grad *b, const char *op_type, const char *domain, const int *in, int in_count) {
    int out;
    return zt_emit_node(b, &(struct zt_emission){ op_type, domain, in, in_count }, &out, 1) ? out : -1;
}

int zt_emit_ints(struct zt_grad *b, const int64_t *values, int count) {
    return zt_graph_add_ints(b->g, NULL, values, count);
}

int zt_emit_float(struct zt_grad *b, enum zt_dtype dtype, double value) {
    return zt_graph_add_float(b->g, NULL, dtype, value);
}

int zt_emit_zeros_like(struct zt_grad *b, int value) {
    const struct zt_value *v = b->g->values[value];
    int shape = zt_emit_ints(b, v->shape.dim, v->shape.rank), scalar = zt_emit_float(b, v->dtype, 0);
    return ZT_EMIT(b, "Expand", scalar, shape);
}

int zt_emit_reshape_like(struct zt_grad *b, int value, int like) {
    if (b->failed || value < 0 || zt_shape_equal(&b->g->values[value]->shape, &b->g->values[like]->shape))
        return value;
    struct zt_shape shape = b->g->values[like]->shape;
    struct zt_attr allow_zero = { .name = "allowzero", .type = ZT_ATTR_INT, .i = 1 };
    int in[2] = { value, zt_emit_ints(b, shape.dim, shape.rank) }, out;
    return zt_emit_node(b, &(struct zt_emission){ "Reshape", "", in, 2, NULL, &allow_zero, 1 }, &out, 1) ? out : -1;
}

int zt_emit_transpose(struct zt_grad *b, int value, const int64_t *perm, int rank) {
    struct zt_attr attr = { .name = "perm",
                            .type = ZT_ATTR_INTS,
                            .count = rank,
                            .ints = zt_arena_copy(b->g->arena, perm, (size_t)rank * sizeof *perm) };
    int out;
    return zt_emit_node(b, &(struct zt_emission){ "Transpose", "", &value, 1, NULL, &attr, 1 }, &out, 1) ? out : -1;
}

int zt_emit_cast_like(struct zt_grad *b, int value, int like) {
    if (b->failed || value < 0 || b->g->values[value]->dtype == b->g->values[like]->dtype)
        return value;
    struct zt_attr to = { .name = "to", .type = ZT_ATTR_INT, .i = b->g->values[like]->dtype };
    int out;
    return zt_emit_node(b, &(struct zt_emission){ "Cast", "", &value, 1, NULL, &to, 1 }, &out, 1) ? out : -1;
}

int zt_grad_unbroadcast(struct zt_grad *b, int gradient, int like) {
    if (b->failed || gradient < 0)
        return -1;
    const struct zt_shape from = b->g->values[gradient]->shape, to = b->g->values[like]->shape;
    int64_t axes[ZT_MAX_RANK];
    int count = 0, shift = from.rank - to.rank;
    for (int k = 0; k < from.rank; k++)
        if (k < shift || (to.dim[k - shift] == 1 && from.dim[k] != 1))
            axes[count++] = k;
    if (count) {
        struct zt_attr keep = { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 };
        int in[2] = { gradient, zt_emit_ints(b, axes, count) };
        zt_emit_node(b, &(struct zt_emission){ "ReduceSum", "", in, 2, NULL, &keep, 1 }, &gradient, 1);
    }
    return zt_emit_reshape_like(b, gradient, like);
}

/* ---- bookkeeping ---- */

/* A second contribution is added to the first at once, on the stage of the node that gives it: that is where the
 * readers of a parameter are, and one gradient instead of many waits or travels on. */
static void give(struct zt_grad *b, int value, int gradient) {
    b->sum[value] = b->sum[value] < 0 ? gradient : ZT_EMIT(b, "Add", b->sum[value], gradient);
}

int zt_grad_out(struct zt_grad *b, int node, int out) {
    const struct zt_node *n = b->g->nodes[node];
    return out < n->out_count && n->out[out] >= 0 ? b->sum[n->out[out]] : -1;
}

int zt_grad_out_or_zero(struct zt_grad *b, int node, int out) {
    int gradient = zt_grad_out(b, node, out);
    return gradient >= 0 || b->failed ? gradient : zt_emit_zeros_like(b, b->g->nodes[node]->out[out]);
}

bool zt_grad_wanted(struct zt_grad *b, int node, int in) {
    const struct zt_node *n = b->g->nodes[node];
    return in < n->in_count && n->in[in] >= 0 && n->in[in] < b->values && b->leads[n->in[in]] &&
           !(in < 32 && n->op->no_grad_in >> in & 1);
}

void zt_grad_give(struct zt_grad *b, int node, int in, int gradient) {
    if (b->failed || gradient < 0)
        return;
    int value = b->g->nodes[node]->in[in];
    const struct zt_value *v = b->g->values[value], *d = b->g->values[gradient];
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    if (!zt_shape_equal(&v->shape, &d->shape) || v->dtype != d->dtype) {
        zt_node_fail(b->g, node, b->err, "the gradient of input \"%s\" came out as %s%s, wants %s%s", v->name,
                     zt_dtype_name(d->dtype), zt_shape_text(&d->shape, s), zt_dtype_name(v->dtype),
                     zt_shape_text(&v->shape, t));
        b->failed = true;
        return;
    }
    give(b, value, gradient);
}

/* Marks every value that something wanted leads to through differentiable inputs. */
static void mark_leads(struct zt_grad *b, int nodes, const int *wanted, int wanted_count) {
    for (int i = 0; i < wanted_count; i++)
        b->leads[wanted[i]] = true;
    for (int n = 0; n < nodes; n++) {
        const struct zt_node *node = b->g->nodes[n];
        bool leads = false;
        for (int i = 0; node->op->grad && i < node->in_count; i++)
            leads |= zt_grad_wanted(b, n, i);
        for (int i = 0; leads && i < node->out_count; i++)
            if (node->out[i] >= 0 && zt_dtype_in(b->g->values[node->out[i]]->dtype, ZT_ANY_FLOAT))
                b->leads[node->out[i]] = true;
    }
}

static bool run_rule(struct zt_grad *b, int node) {
    bool asked = false, wanted = false;
    for (int i = 0; i < b->g->nodes[node]->out_count; i++) {
        int v = b->g->nodes[node]->out[i];
        asked |= v >= 0 && b->leads[v] && b->sum[v] >= 0;
    }
    for (int i = 0; asked && i < b->g->nodes[node]->in_count; i++)
        wanted |= zt_grad_wanted(b, node, i);
    if (!asked || !wanted || !b->g->nodes[node]->op->grad)
        return true;
    b->node = node;
    bool ok = b->g->nodes[node]->op->grad(b, node, b->err) && !b->failed;
    b->node = -1;
    return ok;
}

bool zt_grad_build(struct zt_graph *g, const struct zt_op_table *table, const struct zt_grad_request *r, int *grads,
                   struct zt_err *err) {
    struct zt_grad b = {
        .g = g, .table = table, .err = err, .central = r->central, .node = -1, .values = g->value_count
    };
    size_t n = (size_t)b.values + 1;
    b.leads = zt_calloc(n, sizeof *b.leads);
    b.sum = zt_malloc(n * sizeof *b.sum);
    memset(b.sum, -1, n * sizeof *b.sum);
    int nodes = g->node_count;
    mark_leads(&b, nodes, r->wanted, r->wanted_count);
    for (int i = 0; i < r->from_count; i++)
        give(&b, r->from[i].value, r->from[i].cotangent);
    bool ok = true;
    for (int i = nodes - 1; ok && i >= 0; i--)
        ok = run_rule(&b, i);
    for (int i = 0; ok && i < r->wanted_count; i++)
        grads[i] = b.sum[r->wanted[i]];
    ok &= !b.failed;
    free(b.leads);
    free(b.sum);
    return ok;
}
