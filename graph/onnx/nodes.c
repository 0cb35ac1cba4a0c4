/* A list of nodes becomes a graph: inputs, initializers, node outputs, nodes, attributes, outputs, in this order, so
 * that every name a node reads is known when the node is added, and all of a graph is known before the graphs inside
 * it.
 *
 *     g       x -> Cond -> c        If(c) { then: y = Add(x, w) }      main: If reads c, then x and w: captured
 *     then    Add(x, w)             x and w are ZT_FROM_OUTSIDE        w: an initializer of `then`, lifted out of it
 *
 * A name that a body does not make is looked for in the graphs around it, and each graph on the way captures it. Lifted
 * initializers are values of the model's graph, so that a body can be copied many times and still has one weight. */
#include "graph/onnx/nodes.h"

#include "graph/onnx/attribute.h"
#include "graph/onnx/type.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char zt_onnx_key_torch_kind[] = "pkg.torch.export.graph_signature.InputSpec.kind";
static const char key_torch_namespace[] = "namespace";
static const char key_torch_fx_node[] = "pkg.torch.onnx.fx_node";
static const char key_torch_trace[] = "pkg.torch.onnx.stack_trace";
static const char key_torch_rule[] = "pkg.onnxscript.rewriter.rule_name";
const char zt_onnx_key_torch_folded_from[] = "pkg.onnxscript.optimizer.folded_from";

static const char *text_or_empty(const char *text) {
    return text ? text : "";
}

const char *zt_onnx_domain(const char *domain) {
    return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

const char *zt_onnx_metadata(struct zt_arena *arena, size_t count, Onnx__StringStringEntryProto *const *entries,
                             const char *key) {
    for (size_t i = 0; i < count; i++)
        if (entries[i]->key && entries[i]->value && strcmp(entries[i]->key, key) == 0)
            return zt_arena_strdup(arena, entries[i]->value);
    return NULL;
}

/* Whether PyTorch's stack trace is one of source lines: that of a node inside of a block that torch.export had as a
 * graph of its own, with torch.no_grad() or torch.autocast(), names that graph instead, File "<eval_with_key>.36". */
static bool is_in_source(const Onnx__NodeProto *p) {
    for (size_t i = 0; i < p->n_metadata_props; i++)
        if (p->metadata_props[i]->key && strcmp(p->metadata_props[i]->key, key_torch_trace) == 0) {
            const char *trace = text_or_empty(p->metadata_props[i]->value);
            return strstr(trace, "File \"") && !strstr(trace, "File \"<eval_with_key>");
        }
    return false;
}

static bool is_main(const struct zt_onnx_scope *s) {
    return !s->outer && !s->in_function;
}

/* ---- where the wire has the messages that were unpacked ---- */

/* Indices of the children of `parent` in field `field`, in order; `count` of them, as unpacked. */
static int *children(struct zt_onnx_scope *s, int parent, uint32_t field, size_t count) {
    int *list = ZT_NEW_N(s->model->file->arena, int, count);
    const struct zt_onnx_scan *scan = &s->model->file->scan;
    for (int i = parent + 1; i < scan->messages.count && scan->messages.at[i].at <= scan->messages.at[parent].end; i++)
        if (scan->messages.at[i].parent == parent && scan->messages.at[i].field == field)
            list[scan->messages.at[i].ordinal] = i;
    return list;
}

/* ---- names ---- */

/* Value of this name here, as nodes inside may see it too; -1 without. */
static int find_here(const struct zt_onnx_scope *s, const char *name) {
    int id = zt_graph_find(s->g, name);
    return id < s->own ? id : -1;
}

/* A captured value: `from` of the outer graph. */
static int capture(struct zt_onnx_scope *s, const char *name, int from) {
    int id = zt_graph_add_value(s->g, name, ZT_UNDEFINED, NULL);
    s->g->values[id]->origin = ZT_FROM_OUTSIDE;
    zt_vec_push(&s->captured, id);
    zt_vec_push(&s->captured_from, from);
    return id;
}

/* The same for a name that is not here; -1 where the graphs around do not have it either. */
static int capture_name(struct zt_onnx_scope *s, const char *name) {
    if (!s->outer)
        return -1;
    int from = find_here(s->outer, name);
    if (from < 0)
        from = capture_name(s->outer, name);
    return from < 0 ? -1 : capture(s, name, from);
}

/* A value of this graph for `value` of the model's graph. */
static int capture_lifted(struct zt_onnx_scope *s, const char *name, int value) {
    if (is_main(s))
        return value;
    return capture(s, name, s->outer ? capture_lifted(s->outer, NULL, value) : value);
}

/* Value ids of names, "" as -1. A name that nothing defines gets a value without producer, which zt_graph_sort reports.
 */
static int *ids_of(struct zt_onnx_scope *s, size_t count, char *const *names) {
    int *ids = ZT_NEW_N(s->g->arena, int, count);
    for (size_t i = 0; i < count; i++) {
        ids[i] = names[i][0] ? zt_graph_find(s->g, names[i]) : -1;
        if (names[i][0] && ids[i] < 0)
            ids[i] = capture_name(s, names[i]);
        if (names[i][0] && ids[i] < 0)
            ids[i] = zt_graph_add_value(s->g, names[i], ZT_UNDEFINED, NULL);
    }
    return ids;
}

/* ---- values ---- */

static void read_dim(struct zt_onnx_scope *s, const Onnx__TensorShapeProto__Dimension *dim, struct zt_value *v, int i) {
    bool number = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    bool symbol = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param[0];
    v->shape.dim[i] = number && dim->dim_value >= 0 ? dim->dim_value : -1;
    v->dim_param[i] = symbol ? zt_arena_strdup(s->g->arena, dim->dim_param) : NULL;
}

/* Type and shape as declared. Values that are neither tensor nor list (graph/ir/list.h) stay undefined, with unknown
 * rank. */
static bool read_type(struct zt_onnx_scope *s, const Onnx__ValueInfoProto *info, int value) {
    struct zt_value *v = s->g->values[value];
    v->list = zt_onnx_list_type(s->g->arena, info->type);
    if (!info->type || info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return true;
    const Onnx__TypeProto__Tensor *t = info->type->tensor_type;
    if (t->elem_type && !zt_onnx_storage(t->elem_type))
        return zt_fail(s->err, ZT_EXIT_MODEL, "\"%s\" has element type %d, which ONNX does not have", v->name,
                       (int)t->elem_type);
    v->dtype = (enum zt_dtype)t->elem_type;
    if (!t->shape)
        return true;
    if (t->shape->n_dim > ZT_MAX_RANK)
        return zt_fail(s->err, ZT_EXIT_MODEL, "\"%s\" has %zu dims, at most %d are supported", v->name, t->shape->n_dim,
                       ZT_MAX_RANK);
    v->shape.rank = (int)t->shape->n_dim;
    for (int i = 0; i < v->shape.rank; i++)
        read_dim(s, t->shape->dim[i], v, i);
    return true;
}

/* Whether initializer `i` has a name that is free; *where names it in errors. */
static bool check_name(struct zt_onnx_scope *s, const char *name, int i, const char **where) {
    if (!name[0])
        return zt_fail(s->err, ZT_EXIT_MODEL, "initializer %d has no name", i);
    *where = zt_arena_printf(s->model->file->arena, "tensor \"%s\"", name);
    return zt_graph_find(s->g, name) < 0 ||
           zt_fail(s->err, ZT_EXIT_MODEL, "%s: two initializers have this name", *where);
}

static bool read_initializer(struct zt_onnx_scope *s, const Onnx__TensorProto *t, int message, int i) {
    struct zt_onnx_file *file = s->model->file;
    const char *name = text_or_empty(t->name), *where;
    struct zt_tensor tensor;
    if (!check_name(s, name, i, &where))
        return false;
    bool ok = zt_onnx_tensor(file, message, t, where, &tensor, s->err);
    struct zt_graph *g = s->model->graph;
    int id = zt_graph_add_value(g, name, tensor.dtype, &tensor.shape);
    struct zt_value *v = g->values[id];
    v->origin = ZT_FROM_INITIALIZER;
    v->data = tensor.data;
    v->torch_kind = zt_onnx_metadata(g->arena, t->n_metadata_props, t->metadata_props, zt_onnx_key_torch_kind);
    v->torch_folded_from =
        zt_onnx_metadata(g->arena, t->n_metadata_props, t->metadata_props, zt_onnx_key_torch_folded_from);
    zt_vec_push(&file->stored, (struct zt_onnx_stored){ zt_arena_strdup(file->arena, v->name), message, tensor });
    capture_lifted(s, name, id);
    return ok;
}

/* A constant: what would be written back has no place for the elements that it leaves out. */
static bool read_sparse(struct zt_onnx_scope *s, const Onnx__SparseTensorProto *t, int message, int i) {
    struct zt_graph *g = s->model->graph;
    const char *name = text_or_empty(t->values ? t->values->name : NULL), *where;
    struct zt_tensor tensor;
    if (!check_name(s, name, i, &where) || !zt_onnx_sparse(s->model->file, message, t, where, &tensor, s->err))
        return false;
    const int id = zt_graph_add_value(g, name, tensor.dtype, &tensor.shape);
    g->values[id]->origin = ZT_FROM_CONSTANT;
    g->values[id]->data = tensor.data;
    capture_lifted(s, name, id);
    return true;
}

static bool read_initializers(struct zt_onnx_scope *s, const Onnx__GraphProto *p, int message) {
    int *messages = children(s, message, ZT_GRAPH_INITIALIZER, p->n_initializer);
    bool ok = true;
    for (size_t i = 0; i < p->n_initializer; i++)
        ok &= read_initializer(s, p->initializer[i], messages[i], (int)i);
    messages = children(s, message, ZT_GRAPH_SPARSE_INITIALIZER, p->n_sparse_initializer);
    for (size_t i = 0; i < p->n_sparse_initializer; i++)
        ok &= read_sparse(s, p->sparse_initializer[i], messages[i], (int)i);
    return ok;
}

static bool add_input(struct zt_onnx_scope *s, const char *name, size_t i) {
    if (!name[0])
        return zt_fail(s->err, ZT_EXIT_MODEL, "input %zu has no name", i);
    if (zt_graph_find(s->g, name) >= 0)
        return zt_fail(s->err, ZT_EXIT_MODEL, "input \"%s\": two inputs have this name", name);
    int v = zt_graph_add_value(s->g, name, ZT_UNDEFINED, NULL);
    s->g->values[v]->origin = ZT_FROM_INPUT;
    s->g->inputs[s->g->input_count++] = v;
    return true;
}

/* An input that is an initializer too is that initializer: all of them before IR version 4, later those with a default
 * value. A body's inputs are always fed. */
static bool read_inputs(struct zt_onnx_scope *s, const Onnx__GraphProto *p) {
    bool ok = true;
    s->g->inputs = ZT_NEW_N(s->g->arena, int, p->n_input);
    for (size_t i = 0; i < p->n_input; i++) {
        const char *name = text_or_empty(p->input[i]->name);
        int v = zt_graph_find(s->g, name);
        if (is_main(s) && v >= 0 && s->g->values[v]->origin != ZT_FROM_INPUT)
            continue;
        ok &= add_input(s, name, i) && read_type(s, p->input[i], s->g->value_count - 1);
    }
    return ok;
}

/* Only what helps: marks of the exporter, and the declared element type of a node's output, which inference overrules.
 */
static void read_value_info(struct zt_onnx_scope *s, const Onnx__ValueInfoProto *info) {
    int id = find_here(s, text_or_empty(info->name));
    if (id < 0)
        return;
    struct zt_value *v = s->g->values[id];
    const char *kind =
        zt_onnx_metadata(s->g->arena, info->n_metadata_props, info->metadata_props, zt_onnx_key_torch_kind);
    const char *from =
        zt_onnx_metadata(s->g->arena, info->n_metadata_props, info->metadata_props, zt_onnx_key_torch_folded_from);
    bool tensor = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->torch_kind = kind ? kind : v->torch_kind;
    v->torch_folded_from = from ? from : v->torch_folded_from;
    if (tensor && v->origin == ZT_FROM_NODE && v->dtype == ZT_UNDEFINED &&
        zt_onnx_storage(info->type->tensor_type->elem_type))
        v->dtype = (enum zt_dtype)info->type->tensor_type->elem_type;
}

/* The value of a graph output; -1: it has no producer. A subgraph's output may be a captured value. */
static int output_value(struct zt_onnx_scope *s, const char *name) {
    int v = name[0] ? find_here(s, name) : -1;
    if (v < 0 && name[0])
        v = capture_name(s, name);
    if (v < 0)
        zt_fail(s->err, ZT_EXIT_MODEL, "output \"%s\" is not the output of any node", name);
    return v;
}

static bool read_outputs(struct zt_onnx_scope *s, const Onnx__GraphProto *p) {
    bool ok = true;
    s->g->outputs = ZT_NEW_N(s->g->arena, int, p->n_output);
    for (size_t i = 0; i < p->n_output; i++) {
        int v = output_value(s, text_or_empty(p->output[i]->name));
        if (v < 0) {
            ok = false;
            continue;
        }
        s->g->outputs[s->g->output_count++] = v;
        if (s->g->values[v]->origin == ZT_FROM_NODE && s->g->values[v]->dtype == ZT_UNDEFINED)
            ok &= read_type(s, p->output[i], v);
    }
    return ok;
}

/* ---- nodes ---- */

/* Nodes of a graph or function, with where the wire has them. */
struct nodes {
    size_t count;
    Onnx__NodeProto **at;
    int *message;
};

/* Names tell nodes apart in messages and in random numbers, so each gets its own. */
static const char *node_name(struct zt_onnx_scope *s, const Onnx__NodeProto *p, int i) {
    const char *name = text_or_empty(p->name);
    if (!name[0])
        name = zt_arena_printf(s->g->arena, "%s -> %s", text_or_empty(p->op_type), p->n_output ? p->output[0] : "");
    while (zt_map_get(&s->node_names, name, -1) >= 0)
        name = zt_arena_printf(s->g->arena, "%s #%d", name, i);
    name = zt_arena_strdup(s->g->arena, name);
    zt_map_put(&s->node_names, name, i);
    return name;
}

static void add_node_outputs(struct zt_onnx_scope *s, const struct nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        for (size_t o = 0; o < nodes->at[i]->n_output; o++)
            if (nodes->at[i]->output[o][0] && zt_graph_find(s->g, nodes->at[i]->output[o]) < 0)
                zt_graph_add_value(s->g, nodes->at[i]->output[o], ZT_UNDEFINED, NULL);
}

static bool read_node(struct zt_onnx_scope *s, const Onnx__NodeProto *p, int i) {
    const char *name = node_name(s, p, i), *domain = zt_onnx_domain(p->domain);
    bool ok = true;
    if (!p->op_type || !p->op_type[0])
        ok = zt_fail(s->err, ZT_EXIT_MODEL, "node %d \"%s\" has no operator", i, name);
    int opset = zt_map_get(s->opset_by_domain, domain, 0);
    if (ok && !opset && !domain[0])
        ok = zt_fail(s->err, ZT_EXIT_MODEL, "%s (%s): no opset import for domain ai.onnx", name, p->op_type);
    const int *in = ids_of(s, p->n_input, p->input), *out = ids_of(s, p->n_output, p->output);
    int index = zt_graph_add_node(s->g, &(struct zt_node_spec){ name, text_or_empty(p->op_type), domain, opset, in,
                                                                (int)p->n_input, out, (int)p->n_output });
    struct zt_node *n = s->g->nodes[index];
    n->file_index = i;
    n->place = i;
    n->torch_namespace = zt_onnx_metadata(s->g->arena, p->n_metadata_props, p->metadata_props, key_torch_namespace);
    n->torch_fx_node = zt_onnx_metadata(s->g->arena, p->n_metadata_props, p->metadata_props, key_torch_fx_node);
    n->torch_in_source = is_in_source(p);
    n->torch_rule = zt_onnx_metadata(s->g->arena, p->n_metadata_props, p->metadata_props, key_torch_rule);
    n->overload = p->overload && p->overload[0] ? zt_arena_strdup(s->g->arena, p->overload) : NULL;
    return ok;
}

/* ---- attributes ---- */

/* The tensor of a node that has nothing else (Constant) can be trained and rewritten like an initializer. */
static void remember_constant(struct zt_onnx_scope *s, const struct zt_node *node, const struct zt_attr *attr,
                              int message) {
    struct zt_onnx_file *file = s->model->file;
    if (is_main(s) && node->in_count == 0 && node->out_count == 1 && node->out[0] >= 0 &&
        strcmp(attr->name, "value") == 0)
        zt_vec_push(&file->stored,
                    (struct zt_onnx_stored){ zt_arena_strdup(file->arena, s->g->values[node->out[0]]->name), message,
                                             attr->tensor });
}

static void append_inputs(struct zt_graph *g, struct zt_node *node, const int *more, int count) {
    int *in = ZT_NEW_N(g->arena, int, node->in_count + count);
    if (node->in_count)
        memcpy(in, node->in, (size_t)node->in_count * sizeof *in);
    if (count)
        memcpy(in + node->in_count, more, (size_t)count * sizeof *in);
    node->in = in;
    node->in_count += count;
    node->captured += count;
}

/* Reads the subgraph of an attribute; its captured values become inputs of the node. */
static bool read_body(struct zt_onnx_scope *s, int index, const Onnx__AttributeProto *a, int message,
                      struct zt_attr *attr) {
    struct zt_onnx_scope inner = { .model = s->model,
                                   .outer = s,
                                   .opset_by_domain = s->opset_by_domain,
                                   .in_function = s->in_function,
                                   .err = s->err };
    bool ok = zt_onnx_read_graph(&inner, a->g, zt_onnx_child(&s->model->file->scan, message, ZT_ATTRIBUTE_G));
    attr->graph = inner.g;
    append_inputs(s->g, s->g->nodes[index], inner.captured_from.at, inner.captured_from.count);
    zt_onnx_scope_finish(&inner);
    return ok;
}

/* The message of the attribute's tensor, -1 without. */
static int tensor_of(const struct zt_onnx_scope *s, const Onnx__AttributeProto *a, int message) {
    return zt_onnx_child(&s->model->file->scan, message,
                         a->sparse_tensor ? ZT_ATTRIBUTE_SPARSE_TENSOR : ZT_ATTRIBUTE_T);
}

static bool read_attribute(struct zt_onnx_scope *s, int index, const Onnx__AttributeProto *a, int message) {
    const int tensor = tensor_of(s, a, message);
    struct zt_attr attr;
    if (!zt_onnx_attr(s->model->file, s->g->arena, &(struct zt_onnx_attr_source){ a, s->in_function, tensor }, &attr,
                      s->err))
        return false;
    if (zt_node_attr(s->g->nodes[index], attr.name))
        return zt_fail(s->err, ZT_EXIT_MODEL, "attribute %s is given twice", attr.name);
    if (attr.type == ZT_ATTR_GRAPH && !attr.ref && !read_body(s, index, a, message, &attr))
        return false;
    struct zt_node *node = s->g->nodes[index];
    node->attr[node->attr_count++] = attr;
    if (attr.type == ZT_ATTR_TENSOR && !attr.ref)
        remember_constant(s, node, &attr, tensor);
    return true;
}

static bool read_attributes(struct zt_onnx_scope *s, int index, const Onnx__NodeProto *p, int message) {
    int *messages = children(s, message, ZT_NODE_ATTRIBUTE, p->n_attribute);
    bool ok = true;
    s->g->nodes[index]->attr = ZT_NEW_N(s->g->arena, struct zt_attr, p->n_attribute);
    for (size_t i = 0; i < p->n_attribute; i++) {
        int first = s->err->count;
        const struct zt_node *node = s->g->nodes[index];
        if (!read_attribute(s, index, p->attribute[i], messages[i]))
            ok = zt_err_within(s->err, first, "%s (%s)", node->name, node->op_type);
    }
    return ok;
}

/* Reads all node names first, then the contents of the nodes. */
static bool read_nodes(struct zt_onnx_scope *s, const struct nodes *nodes) {
    bool ok = true;
    for (size_t i = 0; i < nodes->count; i++)
        ok &= read_node(s, nodes->at[i], (int)i);
    s->own = s->g->value_count;
    for (size_t i = 0; i < nodes->count; i++)
        ok &= read_attributes(s, (int)i, nodes->at[i], nodes->message[i]);
    return ok;
}

/* ---- graphs ---- */

static void create_graph(struct zt_onnx_scope *s, const char *name) {
    struct zt_onnx *model = s->model;
    s->own = INT_MAX;
    if (is_main(s)) {
        s->g = model->graph = zt_graph_create(name);
        return;
    }
    s->g = zt_graph_create_in(model->graph->arena, name);
    zt_vec_push(&model->file->bodies, s->g);
}

static bool finish_graph(struct zt_onnx_scope *s, bool ok) {
    s->g->captured_count = s->captured.count;
    s->g->captured = zt_vec_copy(s->g->arena, &s->captured);
    return ok && zt_graph_sort(s->g, s->err);
}

void zt_onnx_scope_finish(struct zt_onnx_scope *s) {
    zt_vec_finish(&s->captured);
    zt_vec_finish(&s->captured_from);
    zt_map_finish(&s->node_names);
}

bool zt_onnx_read_graph(struct zt_onnx_scope *s, const Onnx__GraphProto *p, int message) {
    create_graph(s, text_or_empty(p->name));
    const struct nodes nodes = { p->n_node, p->node, children(s, message, ZT_GRAPH_NODE, p->n_node) };
    bool ok = read_initializers(s, p, message);
    ok &= read_inputs(s, p);
    add_node_outputs(s, &nodes);
    ok &= read_nodes(s, &nodes);
    ok &= read_outputs(s, p);
    for (size_t i = 0; i < p->n_value_info; i++)
        read_value_info(s, p->value_info[i]);
    return finish_graph(s, ok);
}

/* ---- functions ---- */

/* Those without a default first. */
static bool read_parameters(struct zt_onnx_scope *s, const Onnx__FunctionProto *p, int message, struct zt_attrs *to) {
    struct zt_onnx_file *file = s->model->file;
    int *messages = children(s, message, ZT_FUNCTION_ATTRIBUTE_PROTO, p->n_attribute_proto);
    struct zt_attr *list = ZT_NEW_N(s->g->arena, struct zt_attr, p->n_attribute + p->n_attribute_proto);
    *to = (struct zt_attrs){ list, 0 };
    for (size_t i = 0; i < p->n_attribute; i++)
        list[to->count++] = (struct zt_attr){ .name = zt_arena_strdup(s->g->arena, p->attribute[i]) };
    for (size_t i = 0; i < p->n_attribute_proto; i++) {
        const Onnx__AttributeProto *a = p->attribute_proto[i];
        const struct zt_onnx_attr_source from = { a, false, tensor_of(s, a, messages[i]) };
        if (!zt_onnx_attr(file, s->g->arena, &from, &list[to->count], s->err))
            return false;
        if (list[to->count++].type == ZT_ATTR_GRAPH)
            return zt_fail(s->err, ZT_EXIT_MODEL, "a graph as default of attribute %s is not supported", a->name);
    }
    return true;
}

static bool read_function_values(struct zt_onnx_scope *s, const Onnx__FunctionProto *p) {
    bool ok = true;
    for (size_t i = 0; i < p->n_output; i++) {
        s->g->outputs[s->g->output_count] = output_value(s, p->output[i]);
        ok &= s->g->outputs[s->g->output_count++] >= 0;
    }
    for (size_t i = 0; i < p->n_value_info; i++)
        read_value_info(s, p->value_info[i]);
    return ok;
}

bool zt_onnx_read_function(struct zt_onnx_scope *s, const Onnx__FunctionProto *p, int message,
                           struct zt_function *function) {
    create_graph(s, text_or_empty(p->name));
    const struct nodes nodes = { p->n_node, p->node, children(s, message, ZT_FUNCTION_NODE, p->n_node) };
    bool ok = read_parameters(s, p, message, &function->parameters);
    s->g->inputs = ZT_NEW_N(s->g->arena, int, p->n_input);
    s->g->outputs = ZT_NEW_N(s->g->arena, int, p->n_output);
    for (size_t i = 0; i < p->n_input; i++)
        ok &= add_input(s, p->input[i], i);
    add_node_outputs(s, &nodes);
    ok &= read_nodes(s, &nodes);
    ok &= read_function_values(s, p);
    function->body = s->g;
    function->captured = zt_vec_copy(s->g->arena, &s->captured_from);
    return finish_graph(s, ok);
}
