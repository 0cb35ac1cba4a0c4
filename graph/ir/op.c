#include "graph/ir/op.h"

#include "graph/ir/list.h"

#include <stdlib.h>
#include <string.h>

const struct zt_op *zt_op_next(const struct zt_op_table *table, struct zt_op_cursor *at) {
    while (table->families[at->family]) {
        const struct zt_op *row = table->families[at->family][at->row++];
        if (row)
            return row;
        *at = (struct zt_op_cursor){ .family = at->family + 1 };
    }
    return NULL;
}

const struct zt_op *zt_op_find(const struct zt_op_table *table, const char *domain, const char *name, int opset) {
    struct zt_op_cursor at = { 0 };
    const struct zt_op *row, *newest = NULL;
    while ((row = zt_op_next(table, &at))) {
        if (strcmp(row->name, name) != 0 || strcmp(row->domain ? row->domain : "", domain) != 0)
            continue;
        if (opset >= row->since && (!row->until || opset <= row->until))
            return row;
        newest = newest && newest->since > row->since ? newest : row;
    }
    return opset ? NULL : newest;
}

bool zt_op_copies(const struct zt_op *op) {
    return op->flags & ZT_OP_VIEW && op->max_in == 1 && !op->attrs && op->grad;
}

const struct zt_op *zt_op_of(const struct zt_op_table *table, const struct zt_node *n) {
    return zt_op_find(table, n->domain, n->op_type, n->opset);
}

bool zt_op_has_channels(const struct zt_op *op) {
    return op && op->channel_axis && !(op->flags & ZT_OP_GROUP_CHANNELS);
}

bool zt_op_has_gradient(const struct zt_op *op) {
    if (op->grad || !op->expand)
        return op->grad != NULL;
    bool graphs = false, inputs = false;
    for (const struct zt_attr_spec *s = op->attrs; s && s->name; s++)
        graphs |= s->type == ZT_ATTR_GRAPH;
    for (int i = 0; i < op->max_in && i < 32; i++)
        inputs |= !(op->no_grad_in >> i & 1);
    return graphs || inputs;
}

static bool fail_missing(const struct zt_op_table *table, const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const char *domain = n->domain[0] ? n->domain : "ai.onnx";
    struct zt_op_cursor at = { 0 };
    const struct zt_op *row;
    while ((row = zt_op_next(table, &at)))
        if (strcmp(row->name, n->op_type) == 0 && strcmp(row->domain ? row->domain : "", n->domain) == 0)
            return zt_node_fail(g, node, err, "operator %s.%s is not supported in opset %d", domain, n->op_type,
                                n->opset);
    if (strncmp(domain, "com.microsoft", 13) == 0)
        return zt_node_fail(
            g, node, err,
            "operator %s.%s of onnxruntime is not supported: optimizers that fuse or quantize nodes write "
            "it, so train the file as it was exported",
            domain, n->op_type);
    if (!n->domain[0])
        return zt_node_fail(g, node, err,
                            "operator ai.onnx.%s is not supported (`ztrain ops` lists the supported ones). If ONNX has "
                            "none, the exporter left one of its framework: write that layer with others, or export for "
                            "inference what draws random numbers",
                            n->op_type);
    return zt_node_fail(g, node, err, "operator %s.%s is not supported (`ztrain ops` lists the supported ones)", domain,
                        n->op_type);
}

static bool check_counts(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_op *op = n->op;
    int inputs = n->in_count - n->captured;
    if (op->flags & ZT_OP_VARIADIC && inputs < op->min_in)
        return zt_node_fail(g, node, err, "has %d inputs, wants %d or more", inputs, op->min_in);
    if (inputs < op->min_in || (!(op->flags & ZT_OP_VARIADIC) && inputs > op->max_in))
        return zt_node_fail(g, node, err, "has %d inputs, wants %d to %d", inputs, op->min_in, op->max_in);
    if (n->out_count < op->min_out || n->out_count > op->max_out)
        return zt_node_fail(g, node, err, "has %d outputs, wants %d to %d", n->out_count, op->min_out, op->max_out);
    for (int i = 0; i < op->min_in; i++)
        if (n->in[i] < 0)
            return zt_node_fail(g, node, err, "input %d is missing", i);
    for (int i = 0; i < op->min_out; i++)
        if (n->out[i] < 0)
            return zt_node_fail(g, node, err, "output %d is missing", i);
    return true;
}

static const char *attr_type_name(enum zt_attr_type type) {
    static const char *const name[] = { "nothing", "a float", "an int", "a string", "a tensor",
                                        "a graph", "floats",  "ints",   "strings",  "another type" };
    return type == ZT_ATTR_TYPE ? "a type" : (int)type >= 0 && type <= ZT_ATTR_OTHER ? name[type] : "another type";
}

static bool check_attrs(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    static const struct zt_attr_spec none = { 0 };
    const struct zt_attr_spec *specs = n->op->attrs ? n->op->attrs : &none, *s;
    for (int i = 0; i < n->attr_count; i++) {
        for (s = specs; s->name && strcmp(s->name, n->attr[i].name) != 0; s++)
            ;
        if (!s->name)
            return zt_node_fail(g, node, err, "has attribute \"%s\", which %s of opset %d does not define",
                                n->attr[i].name, n->op_type, n->opset);
        bool empty_list = n->attr[i].type >= ZT_ATTR_FLOATS && n->attr[i].type <= ZT_ATTR_STRINGS &&
                          !n->attr[i].count && s->type >= ZT_ATTR_FLOATS && s->type <= ZT_ATTR_STRINGS;
        if (s->type != n->attr[i].type && !empty_list)
            return zt_node_fail(g, node, err, "attribute \"%s\" is %s, wants %s", s->name,
                                attr_type_name(n->attr[i].type), attr_type_name(s->type));
    }
    for (s = specs; s->name; s++)
        if (s->required && !zt_node_attr(n, s->name))
            return zt_node_fail(g, node, err, "attribute \"%s\" is missing", s->name);
    return true;
}

bool zt_op_resolve(const struct zt_op_table *table, struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_node *n = g->nodes[node];
    /* Our own ops trust their attributes, which our passes wrote: a file may not use them. */
    bool foreign = n->file_index < 0 || strcmp(n->domain, "ztrain") != 0;
    g->table = table;
    n->op = foreign ? zt_op_of(table, n) : NULL;
    if (!n->op)
        return fail_missing(table, g, node, err);
    n->opset = n->opset ? n->opset : n->op->since;
    if (!check_counts(g, node, err) || !check_attrs(g, node, err))
        return false;
    zt_op_join(g, node);
    return true;
}

bool zt_op_expands(const struct zt_graph *g, int node) {
    const struct zt_op *op = g->nodes[node]->op;
    if (!op->expand || !op->infer)
        return op->expand != NULL;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->list)
            return true;
    return false;
}

static bool check_list(const struct zt_graph *g, int node, const struct zt_value *v, struct zt_err *err) {
    char text[ZT_LIST_TEXT];
    const struct zt_node *n = g->nodes[node];
    if (!(n->op->flags & ZT_OP_LISTS))
        return zt_node_fail(g, node, err, "input \"%s\" is a%s %s, which %s does not accept", v->name,
                            v->list->kind == ZT_OPTIONAL ? "n" : "", zt_list_text(v->list, text), n->op_type);
    return v->list->count >= 0 ||
           zt_node_fail(g, node, err, "the length of the %s \"%s\" is not known%s", zt_list_text(v->list, text),
                        v->name, v->origin == ZT_FROM_INPUT ? ": training data hold tensors alone" : "");
}

static bool check_types(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *first = zt_in(g, node, 0);
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && v->list && !check_list(g, node, v, err))
            return false;
        if (!v || v->list)
            continue;
        int slot = i < 8 ? i : 7;
        while (slot > 0 && !n->op->in_types[slot])
            slot--;
        unsigned allowed = n->op->in_types[i < 8 ? i : 7];
        if (!allowed && n->op->flags & ZT_OP_VARIADIC)
            allowed = n->op->in_types[slot];
        if (!zt_dtype_in(v->dtype, allowed ? allowed : ZT_ANY_TYPE))
            return zt_node_fail(g, node, err, "input \"%s\" has type %s, which %s does not accept there", v->name,
                                zt_dtype_name(v->dtype), n->op_type);
        if (i > 0 && i < 32 && n->op->same_type >> i & 1 && first && v->dtype != first->dtype)
            return zt_node_fail(g, node, err, "input \"%s\" has type %s, but \"%s\" has type %s", v->name,
                                zt_dtype_name(v->dtype), first->name, zt_dtype_name(first->dtype));
    }
    return true;
}

/* Refuses values that no machine could hold, so that the rest may multiply sizes without looking: the product of any of
 * the dims, those beside a 0 included, stays within 2^40. */
static bool check_size(const struct zt_graph *g, int node, int value, const char *what, struct zt_err *err) {
    if (value < 0)
        return true;
    const struct zt_value *v = g->values[value];
    struct zt_shape shape = v->shape;
    char text[ZT_SHAPE_TEXT];
    for (int k = 0; k < shape.rank; k++)
        shape.dim[k] += shape.dim[k] == 0;
    return zt_shape_count(&shape) <= INT64_C(1) << 40 ||
           zt_node_fail(g, node, err, "%s \"%s\" has shape %s, more than 2^40 elements", what, v->name,
                        zt_shape_text(&v->shape, text));
}

static bool check_sizes(const struct zt_graph *g, int node, const int *values, int count, const char *what,
                        struct zt_err *err) {
    for (int i = 0; i < count; i++)
        if (!check_size(g, node, values[i], what, err))
            return false;
    return true;
}

bool zt_op_check_inputs(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    return check_types(g, node, err) && check_sizes(g, node, n->in, n->in_count, "input", err);
}

bool zt_op_infer(struct zt_graph *g, int node, struct zt_err *err) {
    if (!zt_op_check_inputs(g, node, err) || !g->nodes[node]->op->infer(g, node, err))
        return false;
    const struct zt_node *n = g->nodes[node];
    for (int i = 0; i < n->out_count; i++)
        if (n->out[i] >= 0)
            g->values[n->out[i]]->list = NULL; /* the file may have declared a list */
    return check_sizes(g, node, n->out, n->out_count, "output", err);
}

double zt_op_work(const struct zt_graph *g, int node) {
    const struct zt_op *op = g->nodes[node]->op;
    if (op->flops)
        return op->flops(g, node);
    if (op->flags & ZT_OP_VIEW)
        return 0;
    double elements = 0;
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        const struct zt_value *v = zt_out(g, node, i);
        elements += v ? (double)zt_shape_count(&v->shape) : 0;
    }
    return elements;
}

double zt_op_flops(const struct zt_graph *g, int node) {
    const double each = g->nodes[node]->op->flops_each;
    return each > 0 ? each * (double)zt_shape_count(&zt_in(g, node, 0)->shape) : zt_op_work(g, node);
}

double zt_op_macs(const struct zt_graph *g, int node) {
    const struct zt_op *op = g->nodes[node]->op;
    return op->flops && !(op->flags & ZT_OP_SUMS) ? op->flops(g, node) / 2 : 0;
}

int zt_op_in_place(const struct zt_node *n) {
    const int i = n->op->in_place;
    return n->op->flags & ZT_OP_IN_PLACE && i < n->in_count && n->out_count > 0 && n->out[0] >= 0 ? n->in[i] : -1;
}

bool zt_op_is_view(const struct zt_node *n) {
    return n->op->flags & ZT_OP_VIEW && n->out_count == 1 && !zt_node_attr(n, "to");
}

bool zt_op_takes(const struct zt_graph *g, int node, enum zt_backend backend) {
    const struct zt_kernel *k = &g->nodes[node]->op->kernel[backend];
    return k->run && (!k->supports || k->supports(g, node));
}

bool *zt_graph_from_params(const struct zt_graph *g) {
    bool *from = zt_calloc((size_t)g->value_count + 1, sizeof *from);
    for (int v = 0; v < g->value_count; v++)
        from[v] = g->values[v]->trainable;
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        bool all = node->in_count > 0 && !(node->op->flags & ZT_OP_RANDOM);
        for (int i = 0; all && i < node->in_count; i++)
            all = node->in[i] < 0 || from[node->in[i]] || zt_value_is_constant(g->values[node->in[i]]);
        for (int i = 0; all && i < node->out_count; i++)
            if (node->out[i] >= 0)
                from[node->out[i]] = true;
    }
    return from;
}

bool zt_value_from_params(const struct zt_graph *g, int value) {
    bool *from = zt_graph_from_params(g);
    const bool is = from[value];
    free(from);
    return is;
}

int64_t zt_value_bytes(const struct zt_value *v) {
    if (v && v->layout)
        return (int64_t)v->layout->bytes;
    return v ? zt_shape_count(&v->shape) * (int64_t)zt_dtype_bytes(v->dtype) : 0;
}

size_t zt_view_bytes(const struct zt_view *v) {
    return v->layout ? v->layout->bytes : (size_t)zt_shape_count(&v->shape) * zt_dtype_bytes(v->dtype);
}

void zt_set_out(struct zt_graph *g, int node, int i, enum zt_dtype dtype, const struct zt_shape *shape) {
    struct zt_value *v = zt_out(g, node, i);
    if (!v)
        return;
    v->dtype = dtype;
    v->shape = *shape;
}

bool zt_broadcast(const struct zt_graph *g, int node, const struct zt_shape *a, const struct zt_shape *b,
                  struct zt_shape *to, struct zt_err *err) {
    struct zt_shape out = { .rank = a->rank > b->rank ? a->rank : b->rank };
    for (int k = 1; k <= out.rank; k++) {
        int64_t x = k <= a->rank ? a->dim[a->rank - k] : 1, y = k <= b->rank ? b->dim[b->rank - k] : 1;
        if (x != y && x != 1 && y != 1) {
            char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
            return zt_node_fail(g, node, err, "shapes %s and %s do not broadcast", zt_shape_text(a, s),
                                zt_shape_text(b, t));
        }
        out.dim[out.rank - k] = x == 1 ? y : x;
    }
    *to = out;
    return true;
}

bool zt_axis(const struct zt_graph *g, int node, int64_t axis, int rank, int *to, struct zt_err *err) {
    if (axis < -rank || axis >= rank)
        return zt_node_fail(g, node, err, "axis %lld is outside -%d..%d", (long long)axis, rank, rank - 1);
    *to = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

bool zt_known_ints(const struct zt_graph *g, int node, int i, const struct zt_int_list *to, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, i);
    *to->count = -1;
    if (!v)
        return true;
    int64_t n = zt_shape_count(&v->shape);
    if (n < 0 || (n > 0 && !v->data))
        return zt_node_fail(g, node, err, "the shape of its result depends on data: \"%s\" is not constant", v->name);
    if (n > to->room)
        return zt_node_fail(g, node, err, "input \"%s\" has %lld elements, at most %d are taken", v->name, (long long)n,
                            to->room);
    for (int64_t k = 0; k < n; k++)
        to->at[k] = zt_load_int(v->dtype, v->data, k);
    *to->count = (int)n;
    return true;
}
