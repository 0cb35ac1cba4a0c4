#include "graph/passes/fusion/fuse.h"

#include <string.h>

const struct zt_attr_spec zt_fused_attrs[15] = {
    { "alpha", ZT_ATTR_FLOAT },
    { "auto_pad", ZT_ATTR_STRING },
    { "beta", ZT_ATTR_FLOAT },
    { "ceil_mode", ZT_ATTR_INT },
    { "count_include_pad", ZT_ATTR_INT },
    { "dilations", ZT_ATTR_INTS },
    { "group", ZT_ATTR_INT },
    { "input_shape", ZT_ATTR_INTS },
    { "kernel_shape", ZT_ATTR_INTS },
    { "pads", ZT_ATTR_INTS },
    { "storage_order", ZT_ATTR_INT },
    { "strides", ZT_ATTR_INTS },
    { "transA", ZT_ATTR_INT },
    { "transB", ZT_ATTR_INT },
    { 0 },
};

bool zt_fuse_read_only_by(const struct zt_graph *g, int value, const int *nodes, int count) {
    int reads = 0;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < g->nodes[nodes[k]]->in_count; i++)
            reads += g->nodes[nodes[k]]->in[i] == value;
    return reads == zt_graph_users(g, value, NULL) && !zt_graph_is_output(g, value);
}

int zt_fuse_reader(const struct zt_graph *g, int value, int in, const char *op_type) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        if (!node->dead && in < node->in_count && node->in[in] == value && strcmp(node->op_type, op_type) == 0)
            return n;
    }
    return -1;
}

int zt_fuse_producer(const struct zt_graph *g, int node, int in, const char *op_type, bool alone) {
    const struct zt_node *n = g->nodes[node];
    int value = in < n->in_count ? n->in[in] : -1;
    if (value < 0 || g->values[value]->origin != ZT_FROM_NODE)
        return -1;
    int from = g->values[value]->producer;
    const struct zt_node *p = from >= 0 ? g->nodes[from] : NULL;
    if (!p || p->dead || (op_type && strcmp(p->op_type, op_type) != 0) || p->phase != n->phase || p->stage != n->stage)
        return -1;
    return !alone || (zt_graph_users(g, value, NULL) == 1 && !zt_graph_is_output(g, value)) ? from : -1;
}

static bool is_read(const struct zt_graph *g, int node) {
    bool read = false;
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        const int value = g->nodes[node]->out[i];
        read |= value >= 0 && (zt_graph_users(g, value, NULL) > 0 || zt_graph_is_output(g, value));
    }
    return read;
}

void zt_fuse_drop(struct zt_graph *g, int value) {
    while (value >= 0 && g->values[value]->origin == ZT_FROM_NODE && !is_read(g, g->values[value]->producer)) {
        struct zt_node *n = g->nodes[g->values[value]->producer];
        n->dead = true;
        value = n->in_count > 0 ? n->in[0] : -1;
    }
}

int zt_fuse_add(struct zt_graph *g, const struct zt_node *like, const struct zt_node_spec *spec) {
    int node = zt_graph_add_node(g, spec);
    struct zt_node *n = g->nodes[node];
    n->phase = like->phase;
    n->stage = like->stage;
    n->place = like->place;
    n->backend = like->backend;
    return node;
}

bool zt_fuse_settle(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    return zt_op_resolve(table, g, node, err) && zt_op_infer(g, node, err);
}

int zt_fuse_reshape(struct zt_graph *g, const struct zt_op_table *table, int node, int value,
                    const struct zt_shape *shape, struct zt_err *err) {
    const struct zt_value *v = g->values[value];
    const int from = v->origin == ZT_FROM_NODE ? v->producer : -1;
    if (zt_shape_equal(&v->shape, shape))
        return value;
    if (from >= 0 && zt_op_is_view(g->nodes[from]) && zt_shape_equal(&zt_in(g, from, 0)->shape, shape))
        return g->nodes[from]->in[0];
    const int in[2] = { value, zt_graph_add_ints(g, NULL, shape->dim, shape->rank) };
    const int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const int made = zt_fuse_add(
        g, g->nodes[node], &(struct zt_node_spec){ g->values[out]->name, "Reshape", "", ZT_OPSET, in, 2, &out, 1 });
    return zt_fuse_settle(g, table, made, err) ? out : -1;
}

bool zt_fuse_replace(struct zt_graph *g, const struct zt_op_table *table, int old, const struct zt_fused_node *with,
                     struct zt_err *err) {
    struct zt_node *from = g->nodes[old];
    const char *name = with->like->name ? with->like->name : from->name;
    int node = zt_fuse_add(g, from,
                           &(struct zt_node_spec){ name, with->op_type, "ztrain", 1, with->in, with->in_count,
                                                   with->out ? with->out : from->out,
                                                   with->out ? with->out_count : from->out_count });
    struct zt_node *n = g->nodes[node];
    n->attr = with->like->attr;
    n->attr_count = with->like->attr_count;
    for (int i = 0; i < n->out_count; i++)
        if (n->out[i] >= 0)
            g->values[n->out[i]]->producer = node;
    from->dead = true;
    return zt_fuse_settle(g, table, node, err);
}

struct zt_node zt_fuse_attrs_without(struct zt_graph *g, const struct zt_node *like, const char *name) {
    struct zt_node to = { .name = like->name, .attr = ZT_NEW_N(g->arena, struct zt_attr, like->attr_count + 1) };
    for (int i = 0; i < like->attr_count; i++)
        if (strcmp(like->attr[i].name, name) != 0)
            to.attr[to.attr_count++] = like->attr[i];
    return to;
}

bool zt_fuse_run(const struct zt_call *call, const struct zt_op *row, const struct zt_fused_call *views,
                 struct zt_err *err) {
    struct zt_call part = *call;
    part.in = views->in;
    part.in_count = views->in_count;
    part.out = views->out;
    part.out_count = views->out_count;
    part.state = NULL;
    return row->kernel[ZT_REF].run(&part, err);
}
