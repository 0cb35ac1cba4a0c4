/* Buffers and fixed tables that look like parameters. PyTorch's TorchScript exporter and other frameworks' do not tell
 * them apart, and dynamo marks a parameter with requires_grad=False as any other. */
#include "graph/ir/op.h"
#include "graph/passes/trainable/trainable.h"

#include <string.h>

static bool is_zeros(const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    for (int64_t i = 0; i < count; i++)
        if (zt_load_double(v->dtype, v->data, i) != 0)
            return false;
    return true;
}

/* ---- zeros behind the last product ---- */

static bool is_op(const struct zt_node *n, const char *op_type) {
    return n->op && !n->op->domain[0] && strcmp(n->op_type, op_type) == 0;
}

/* A bias has one axis; a buffer that masks or shifts the output has leading ones, and nothing but zeros. */
static bool is_output_shift(const struct zt_graph *g, const struct zt_value *v) {
    int reader = -1;
    const int64_t count = zt_shape_count(&v->shape);
    if (v->shape.rank < 2 || v->shape.dim[v->shape.rank - 1] != count || zt_graph_users(g, v->id, &reader) != 1 ||
        !is_op(g->nodes[reader], "Add"))
        return false;
    for (int i = 0; i < g->output_count; i++)
        if (g->outputs[i] == g->nodes[reader]->out[0])
            return is_zeros(v);
    return false;
}

/* ---- zeros among parameters ---- */

/* Zeros that are joined with other initializers alone: the keys' bias of an attention that has none. */
static bool is_joined_zeros(const struct zt_graph *g, const struct zt_value *v) {
    int reader = -1;
    if (zt_graph_users(g, v->id, &reader) != 1 || !is_op(g->nodes[reader], "Concat"))
        return false;
    const struct zt_node *n = g->nodes[reader];
    for (int i = 0; i < n->in_count; i++)
        if (n->in[i] < 0 || g->values[n->in[i]]->origin != ZT_FROM_INITIALIZER)
            return false;
    return is_zeros(v);
}

/* ---- what scales an input ---- */

static bool is_input(const struct zt_graph *g, int value) {
    return value >= 0 && g->values[value]->origin == ZT_FROM_INPUT;
}

/* (input - mean) / std, before anything else is computed. */
static bool is_input_scale(const struct zt_graph *g, const struct zt_value *v) {
    int reader = -1;
    if (zt_graph_users(g, v->id, &reader) != 1 || !(is_op(g->nodes[reader], "Sub") || is_op(g->nodes[reader], "Div")) ||
        g->nodes[reader]->in[1] != v->id)
        return false;
    const int other = g->nodes[reader]->in[0];
    const struct zt_node *before =
        other >= 0 && g->values[other]->producer >= 0 ? g->nodes[g->values[other]->producer] : NULL;
    return is_input(g, other) || (before && is_op(before, "Sub") && is_input(g, before->in[0]));
}

const char *zt_trainable_doubt(const struct zt_graph *g, const struct zt_value *v, bool marked) {
    if (!v->data || !v->trainable)
        return NULL;
    const char *table = zt_trainable_table(v, marked);
    if (table)
        return table;
    if (!marked && is_output_shift(g, v))
        return "zeros added to the output";
    if (!marked && is_joined_zeros(g, v))
        return "zeros joined with parameters";
    return !marked && is_input_scale(g, v) ? "scales an input" : NULL;
}
