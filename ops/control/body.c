#include "ops/control/body.h"

#include "graph/ir/list.h"
#include "graph/passes/infer.h"

#include <string.h>

/* Tensors in what the subgraphs capture, an upper bound of the inputs that they become. */
static int captured_tensors(const struct zt_expansion *x) {
    const struct zt_node *n = x->g->nodes[x->node];
    int count = 0;
    for (int i = n->in_count - n->captured; i < n->in_count; i++)
        count += zt_list_tensor_count(x->g, n->in[i]);
    return count;
}

void zt_body_begin(struct zt_body *b, struct zt_expansion *x, int inputs, struct zt_err *why) {
    const int tensors = captured_tensors(x);
    *b = (struct zt_body){ .x = x, .why = why };
    b->g = zt_graph_create_in(x->g->arena, x->g->nodes[x->node]->name);
    b->g->functions = x->g->functions;
    b->g->table = x->g->table;
    b->g->lowered_nodes = x->g->lowered_nodes;
    b->g->lowered_bytes = x->g->lowered_bytes;
    b->g->inputs = ZT_NEW_N(b->g->arena, int, inputs + tensors + 1);
    b->captured = ZT_NEW_N(b->g->arena, int, tensors + 1);
}

int zt_body_input(struct zt_body *b, const char *name, enum zt_dtype dtype, const struct zt_shape *shape) {
    const int id = zt_graph_add_value(b->g, name, dtype, shape);
    b->g->values[id]->origin = ZT_FROM_INPUT;
    b->g->inputs[b->g->input_count++] = id;
    return id;
}

/* Numbers of which shapes may be made are known in an eager run too; what has a gradient stays an input. */
static bool is_known(const struct zt_value *v) {
    const bool settled = v->origin == ZT_FROM_CONSTANT || v->origin == ZT_FROM_INITIALIZER;
    return zt_value_is_constant(v) && (settled || !zt_dtype_in(v->dtype, ZT_ANY_FLOAT));
}

/* The value in the graph for a captured one. */
static int capture(struct zt_body *b, int from) {
    const struct zt_value *v = b->x->g->values[from];
    if (!v->list && is_known(v))
        return zt_list_copy(b->g, b->x->g, from, ZT_FROM_CONSTANT);
    if (!v->list) {
        b->captured[b->captured_count++] = from;
        return zt_body_input(b, v->name, v->dtype, &v->shape);
    }
    struct zt_list list = *v->list;
    int *at = ZT_NEW_N(b->g->arena, int, list.count + 1);
    for (int i = 0; i < list.count; i++)
        at[i] = capture(b, list.at[i]);
    list.at = at;
    const int id = zt_graph_add_value(b->g, v->name, ZT_UNDEFINED, NULL);
    b->g->values[id]->origin = ZT_FROM_INPUT;
    zt_list_set(b->g, id, &list);
    return id;
}

/* The first input of the node that the subgraph `attr` captures. */
static int first_captured(const struct zt_node *n, const struct zt_attr *attr) {
    int first = n->in_count - n->captured;
    for (int i = 0; &n->attr[i] != attr; i++)
        first += n->attr[i].graph ? n->attr[i].graph->captured_count : 0;
    return first;
}

int *zt_body_open(struct zt_body *b, const char *name, const int *in) {
    const struct zt_node *n = b->x->g->nodes[b->x->node];
    const struct zt_attr *attr = zt_node_attr(n, name);
    const int outputs = attr->graph->output_count, first = first_captured(n, attr);
    int *ids = ZT_NEW_N(b->g->arena, int, attr->graph->captured_count + 1);
    int *out = ZT_NEW_N(b->g->arena, int, outputs + 1);
    for (int i = 0; i < attr->graph->captured_count; i++)
        ids[i] = capture(b, n->in[first + i]);
    memset(out, -1, ((size_t)outputs + 1) * sizeof *out);
    const bool ok = zt_expand_open(b->x, name, &(struct zt_expand_target){ b->g, in, ids }, out, b->why) &&
                    zt_graph_sort(b->g, b->why);
    return ok ? out : NULL;
}

bool zt_body_infer(struct zt_body *b) {
    return zt_pass_infer(b->g, ZT_BODY_FOLD, b->why);
}

/* Whether training would run the node, or one of a graph that it holds, in a form that computes something else. */
static bool changes_in_training(const struct zt_op_table *table, const struct zt_node *n) {
    const struct zt_op *op = n->op ? n->op : zt_op_of(table, n);
    bool changes = op && op->flags & (ZT_OP_RANDOM | ZT_OP_GROUP | ZT_OP_TRAINS_OTHERWISE);
    for (int i = 0; i < n->attr_count; i++) {
        const struct zt_graph *held = n->attr[i].graph;
        for (int k = 0; !changes && held && k < held->node_count; k++)
            changes = changes_in_training(table, held->nodes[k]);
    }
    return changes;
}

static bool check_nodes(const struct zt_body *b) {
    for (int n = 0; n < b->g->node_count; n++) {
        if (changes_in_training(b->g->table, b->g->nodes[n]))
            return zt_node_fail(b->g, n, b->why, "its numbers are drawn or gathered anew in each run of training");
    }
    return true;
}

bool zt_body_prune(struct zt_body *b) {
    return zt_graph_prune(b->g, b->g->outputs, b->g->output_count, b->why) && check_nodes(b);
}

const struct zt_graph *zt_body_end(struct zt_body *b, bool ok) {
    b->x->g->lowered_nodes = b->g->lowered_nodes;
    b->x->g->lowered_bytes = b->g->lowered_bytes;
    if (ok)
        zt_graph_settle(b->g);
    else
        zt_graph_destroy(b->g);
    return ok ? b->g : NULL;
}
