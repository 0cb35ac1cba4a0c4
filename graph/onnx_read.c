/* An ONNX file becomes a graph: scan, unpack, then header, inputs, initializers, node outputs, nodes and outputs, in
 * this order, so that every name a node reads is known when the node is added. Problems are collected, not only the
 * first. */
#include "graph/onnx_attr.h"
#include "graph/onnx_file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { IR_FIRST = 3, IR_LAST = 14 };

static const char key_torch_kind[] = "pkg.torch.export.graph_signature.InputSpec.kind";
static const char key_torch_folded_from[] = "pkg.onnxscript.optimizer.folded_from";
static const char key_torch_signature[] = "pkg.torch.export.ExportedProgram.graph_signature";

struct reader {
    struct zt_onnx *model;
    struct zt_onnx_file *file;
    struct zt_graph *g;
    const Onnx__ModelProto *proto;
    int *initializer_message; /* message of graph.initializer[i] */
    int *node_message;
    struct zt_map opset_by_domain, node_names;
    struct zt_err *err;
};

static const char *text_or_empty(const char *text) {
    return text ? text : "";
}

/* ONNX's own domain goes by two names. */
static const char *domain_name(const char *domain) {
    return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

static const char *metadata(struct zt_arena *arena, size_t count, Onnx__StringStringEntryProto *const *entries,
                            const char *key) {
    for (size_t i = 0; i < count; i++)
        if (entries[i]->key && entries[i]->value && strcmp(entries[i]->key, key) == 0)
            return zt_arena_strdup(arena, entries[i]->value);
    return NULL;
}

/* ---- header ---- */

static bool read_opsets(struct reader *r) {
    const Onnx__ModelProto *p = r->proto;
    struct zt_onnx *m = r->model;
    m->opsets = ZT_NEW_N(r->file->arena, struct zt_onnx_opset, p->n_opset_import);
    for (size_t i = 0; i < p->n_opset_import; i++) {
        const char *domain = domain_name(p->opset_import[i]->domain);
        int64_t version = p->opset_import[i]->version;
        if (version < 1 || version > INT_MAX)
            return zt_fail(r->err, ZT_EXIT_MODEL, "opset of domain \"%s\" is version %" PRId64 ", wants 1 or more",
                           domain, version);
        if (zt_map_get(&r->opset_by_domain, domain, (int)version) != (int)version)
            return zt_fail(r->err, ZT_EXIT_MODEL, "two opset versions are imported for domain \"%s\"", domain);
        zt_map_put(&r->opset_by_domain, domain, (int)version);
        m->opsets[m->opset_count++] = (struct zt_onnx_opset){ zt_arena_strdup(r->file->arena, domain), version };
    }
    return m->opset_count ||
           zt_fail(r->err, ZT_EXIT_MODEL, "no opset import: the versions of its operators are unknown");
}

static bool read_header(struct reader *r) {
    const Onnx__ModelProto *p = r->proto;
    struct zt_onnx *m = r->model;
    m->ir_version = p->ir_version;
    m->producer =
        zt_arena_printf(r->file->arena, "%s%s%s", text_or_empty(p->producer_name),
                        p->producer_version && p->producer_version[0] ? " " : "", text_or_empty(p->producer_version));
    if (!p->graph)
        return zt_fail(r->err, ZT_EXIT_MODEL, "holds no graph: it is not an ONNX model");
    if (!p->has_ir_version || p->ir_version < IR_FIRST || p->ir_version > IR_LAST)
        return zt_fail(r->err, ZT_EXIT_MODEL, "IR version is %" PRId64 ", wants %d to %d", p->ir_version, IR_FIRST,
                       IR_LAST);
    m->torch_signature =
        metadata(r->file->arena, p->graph->n_metadata_props, p->graph->metadata_props, key_torch_signature);
    return read_opsets(r);
}

/* ---- where the wire has the messages that were unpacked ---- */

/* Indices of the children of `parent` in field `field`, in order; `count` of them, as unpacked. */
static int *children(struct reader *r, int parent, uint32_t field, size_t count) {
    int *list = ZT_NEW_N(r->file->arena, int, count);
    const struct zt_onnx_scan *scan = &r->file->scan;
    for (int i = parent + 1; i < scan->messages.count && scan->messages.at[i].at <= scan->messages.at[parent].end; i++)
        if (scan->messages.at[i].parent == parent && scan->messages.at[i].field == field)
            list[scan->messages.at[i].ordinal] = i;
    return list;
}

/* The one child of `parent` in field `field`, -1 without. */
static int child(const struct zt_onnx_scan *scan, int parent, uint32_t field) {
    for (int i = parent + 1; i < scan->messages.count && scan->messages.at[i].at <= scan->messages.at[parent].end; i++)
        if (scan->messages.at[i].parent == parent && scan->messages.at[i].field == field)
            return i;
    return -1;
}

/* ---- values ---- */

static void read_dim(struct reader *r, const Onnx__TensorShapeProto__Dimension *dim, struct zt_value *v, int i) {
    bool number = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    bool symbol = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param[0];
    v->shape.dim[i] = number && dim->dim_value >= 0 ? dim->dim_value : -1;
    v->dim_param[i] = symbol ? zt_arena_strdup(r->g->arena, dim->dim_param) : NULL;
}

/* Type and shape as declared. What is no tensor stays undefined, of unknown rank. */
static bool read_type(struct reader *r, const Onnx__ValueInfoProto *info, int value) {
    struct zt_value *v = &r->g->values[value];
    if (!info->type || info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return true;
    const Onnx__TypeProto__Tensor *t = info->type->tensor_type;
    if (t->elem_type && !zt_onnx_storage(t->elem_type))
        return zt_fail(r->err, ZT_EXIT_MODEL, "\"%s\" has element type %d, which ONNX does not have", v->name,
                       (int)t->elem_type);
    v->dtype = (enum zt_dtype)t->elem_type;
    if (!t->shape)
        return true;
    if (t->shape->n_dim > ZT_MAX_RANK)
        return zt_fail(r->err, ZT_EXIT_MODEL, "\"%s\" has %zu dims, at most %d are supported", v->name, t->shape->n_dim,
                       ZT_MAX_RANK);
    v->shape.rank = (int)t->shape->n_dim;
    for (int i = 0; i < v->shape.rank; i++)
        read_dim(r, t->shape->dim[i], v, i);
    return true;
}

static bool read_initializer(struct reader *r, int i) {
    const Onnx__TensorProto *t = r->proto->graph->initializer[i];
    const char *name = text_or_empty(t->name);
    struct zt_tensor tensor;
    if (!name[0])
        return zt_fail(r->err, ZT_EXIT_MODEL, "initializer %d has no name", i);
    const char *where = zt_arena_printf(r->file->arena, "tensor \"%s\"", name);
    if (zt_graph_find(r->g, name) >= 0)
        return zt_fail(r->err, ZT_EXIT_MODEL, "%s: two initializers have this name", where);
    bool ok = zt_onnx_tensor(r->file, r->initializer_message[i], t, where, &tensor, r->err);
    int v = zt_graph_add_value(r->g, name, tensor.dtype, &tensor.shape);
    r->g->values[v].origin = ZT_FROM_INITIALIZER;
    r->g->values[v].data = tensor.data;
    r->g->values[v].torch_kind = metadata(r->g->arena, t->n_metadata_props, t->metadata_props, key_torch_kind);
    r->g->values[v].torch_folded_from =
        metadata(r->g->arena, t->n_metadata_props, t->metadata_props, key_torch_folded_from);
    zt_vec_push(&r->file->stored,
                (struct zt_onnx_stored){ zt_arena_strdup(r->file->arena, name), r->initializer_message[i], tensor });
    return ok;
}

static bool read_initializers(struct reader *r) {
    const Onnx__GraphProto *p = r->proto->graph;
    bool ok = true;
    if (p->n_sparse_initializer)
        ok = zt_fail(r->err, ZT_EXIT_MODEL, "has %zu sparse initializers, which are not supported",
                     p->n_sparse_initializer);
    for (size_t i = 0; i < p->n_initializer; i++)
        ok &= read_initializer(r, (int)i);
    return ok;
}

static bool read_input(struct reader *r, int i) {
    const Onnx__ValueInfoProto *info = r->proto->graph->input[i];
    const char *name = text_or_empty(info->name);
    int v = zt_graph_find(r->g, name);
    if (!name[0])
        return zt_fail(r->err, ZT_EXIT_MODEL, "input %d has no name", i);
    if (v >= 0 && r->g->values[v].origin == ZT_FROM_INITIALIZER)
        return true; /* all of them before IR version 4, and later a default value: either way it is that initializer */
    if (v >= 0)
        return zt_fail(r->err, ZT_EXIT_MODEL, "input \"%s\": two inputs have this name", name);
    v = zt_graph_add_value(r->g, name, ZT_UNDEFINED, NULL);
    r->g->values[v].origin = ZT_FROM_INPUT;
    r->g->inputs[r->g->input_count++] = v;
    return read_type(r, info, v);
}

static bool read_inputs(struct reader *r) {
    size_t count = r->proto->graph->n_input;
    bool ok = true;
    r->g->inputs = ZT_NEW_N(r->g->arena, int, count);
    for (size_t i = 0; i < count; i++)
        ok &= read_input(r, (int)i);
    return ok;
}

/* Only what helps: marks of the exporter, and the declared element type of a node's output, which inference overrules.
 */
static void read_value_info(struct reader *r, const Onnx__ValueInfoProto *info) {
    int id = zt_graph_find(r->g, text_or_empty(info->name));
    if (id < 0)
        return;
    struct zt_value *v = &r->g->values[id];
    const char *kind = metadata(r->g->arena, info->n_metadata_props, info->metadata_props, key_torch_kind);
    const char *from = metadata(r->g->arena, info->n_metadata_props, info->metadata_props, key_torch_folded_from);
    bool tensor = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->torch_kind = kind ? kind : v->torch_kind;
    v->torch_folded_from = from ? from : v->torch_folded_from;
    if (tensor && v->origin == ZT_FROM_NODE && v->dtype == ZT_UNDEFINED &&
        zt_onnx_storage(info->type->tensor_type->elem_type))
        v->dtype = (enum zt_dtype)info->type->tensor_type->elem_type;
}

static bool read_outputs(struct reader *r) {
    const Onnx__GraphProto *p = r->proto->graph;
    bool ok = true;
    r->g->outputs = ZT_NEW_N(r->g->arena, int, p->n_output);
    for (size_t i = 0; i < p->n_output; i++) {
        const char *name = text_or_empty(p->output[i]->name);
        int v = zt_graph_find(r->g, name);
        if (v < 0) {
            ok = zt_fail(r->err, ZT_EXIT_MODEL, "output \"%s\" is not made by any node", name);
            continue;
        }
        r->g->outputs[r->g->output_count++] = v;
        if (r->g->values[v].origin == ZT_FROM_NODE && r->g->values[v].dtype == ZT_UNDEFINED)
            ok &= read_type(r, p->output[i], v);
    }
    return ok;
}

/* ---- nodes ---- */

/* Names tell nodes apart in messages and in random numbers, so each gets its own. */
static const char *node_name(struct reader *r, int i) {
    const Onnx__NodeProto *p = r->proto->graph->node[i];
    const char *name = text_or_empty(p->name);
    if (!name[0])
        name = zt_arena_printf(r->g->arena, "%s -> %s", text_or_empty(p->op_type), p->n_output ? p->output[0] : "");
    while (zt_map_get(&r->node_names, name, -1) >= 0)
        name = zt_arena_printf(r->g->arena, "%s #%d", name, i);
    name = zt_arena_strdup(r->g->arena, name);
    zt_map_put(&r->node_names, name, i);
    return name;
}

static void add_node_outputs(struct reader *r) {
    const Onnx__GraphProto *p = r->proto->graph;
    for (size_t i = 0; i < p->n_node; i++)
        for (size_t o = 0; o < p->node[i]->n_output; o++)
            if (p->node[i]->output[o][0] && zt_graph_find(r->g, p->node[i]->output[o]) < 0)
                zt_graph_add_value(r->g, p->node[i]->output[o], ZT_UNDEFINED, NULL);
}

/* Value ids of names, "" as -1. A name that nothing defines gets a value without producer, which zt_graph_sort reports.
 */
static int *ids_of(struct reader *r, size_t count, char *const *names) {
    int *ids = ZT_NEW_N(r->g->arena, int, count);
    for (size_t i = 0; i < count; i++) {
        ids[i] = names[i][0] ? zt_graph_find(r->g, names[i]) : -1;
        if (names[i][0] && ids[i] < 0)
            ids[i] = zt_graph_add_value(r->g, names[i], ZT_UNDEFINED, NULL);
    }
    return ids;
}

/* The tensor of a node that has nothing else (Constant) can be trained and rewritten like an initializer. */
static void remember_constant(struct reader *r, const struct zt_node *node, const struct zt_attr *attr, int message) {
    if (node->in_count == 0 && node->out_count == 1 && node->out[0] >= 0 && strcmp(attr->name, "value") == 0)
        zt_vec_push(&r->file->stored,
                    (struct zt_onnx_stored){ zt_arena_strdup(r->file->arena, r->g->values[node->out[0]].name), message,
                                             attr->tensor });
}

static bool read_attributes(struct reader *r, int index, const Onnx__NodeProto *p, int message) {
    struct zt_node *node = &r->g->nodes[index];
    int *messages = children(r, message, ZT_NODE_ATTRIBUTE, p->n_attribute);
    bool ok = true;
    node->attr = ZT_NEW_N(r->g->arena, struct zt_attr, p->n_attribute);
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *a = p->attribute[i];
        int tensor = a->t ? child(&r->file->scan, messages[i], ZT_ATTRIBUTE_T) : -1, first = r->err->count;
        struct zt_attr attr;
        bool good = zt_onnx_attr(r->file, r->g->arena, a, tensor, &attr, r->err);
        if (good && zt_node_attr(node, attr.name))
            good = zt_fail(r->err, ZT_EXIT_MODEL, "attribute %s stands twice", attr.name);
        if (!good) {
            ok = zt_err_within(r->err, first, "%s (%s)", node->name, node->op_type);
            continue;
        }
        node->attr[node->attr_count++] = attr;
        if (attr.type == ZT_ATTR_TENSOR)
            remember_constant(r, node, &attr, tensor);
    }
    return ok;
}

static bool read_node(struct reader *r, int i) {
    const Onnx__NodeProto *p = r->proto->graph->node[i];
    const char *name = node_name(r, i), *domain = domain_name(p->domain);
    if (!p->op_type || !p->op_type[0])
        return zt_fail(r->err, ZT_EXIT_MODEL, "node %d \"%s\" has no operator", i, name);
    int opset = zt_map_get(&r->opset_by_domain, domain, 0);
    if (!opset && !domain[0])
        return zt_fail(r->err, ZT_EXIT_MODEL, "%s (%s): no opset import for domain ai.onnx", name, p->op_type);
    const int *in = ids_of(r, p->n_input, p->input), *out = ids_of(r, p->n_output, p->output);
    int index = zt_graph_add_node(r->g, name, p->op_type, domain, opset, in, (int)p->n_input, out, (int)p->n_output);
    r->g->nodes[index].file_index = i;
    r->g->nodes[index].place = i;
    return read_attributes(r, index, p, r->node_message[i]);
}

static bool read_graph(struct reader *r) {
    const Onnx__GraphProto *p = r->proto->graph;
    int graph = child(&r->file->scan, 0, ZT_MODEL_GRAPH);
    r->initializer_message = children(r, graph, ZT_GRAPH_INITIALIZER, p->n_initializer);
    r->node_message = children(r, graph, ZT_GRAPH_NODE, p->n_node);
    r->g = r->model->graph = zt_graph_create(text_or_empty(p->name));
    bool ok = read_initializers(r);
    ok &= read_inputs(r);
    add_node_outputs(r);
    for (size_t i = 0; i < p->n_node; i++)
        ok &= read_node(r, (int)i);
    ok &= read_outputs(r);
    for (size_t i = 0; i < p->n_value_info; i++)
        read_value_info(r, p->value_info[i]);
    for (int i = 0; i < r->file->stored.count; i++)
        zt_map_put(&r->file->stored_by_name, r->file->stored.at[i].name, i);
    return ok && zt_graph_sort(r->g, r->err);
}

/* ---- whole ---- */

static bool read_model(struct reader *r) {
    struct zt_onnx_file *f = r->file;
    if (!zt_onnx_scan(&f->scan, f->map.data, f->map.size, &onnx__model_proto__descriptor, f->code, r->err))
        return false;
    Onnx__ModelProto *p = (Onnx__ModelProto *)zt_onnx_unpack(&f->scan, f->code, r->err);
    if (!p)
        return false;
    r->proto = p;
    bool ok = read_header(r) && read_graph(r);
    protobuf_c_message_free_unpacked(&p->base, NULL);
    zt_map_finish(&r->opset_by_domain);
    zt_map_finish(&r->node_names);
    return ok;
}

struct zt_onnx *zt_onnx_read(const char *path, enum zt_onnx_weights weights, struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_onnx *model = ZT_NEW(arena, struct zt_onnx);
    model->path = zt_arena_strdup(arena, path);
    model->file = ZT_NEW(arena, struct zt_onnx_file);
    *model->file = (struct zt_onnx_file){ .arena = arena, .code = ZT_EXIT_MODEL, .weights = weights };
    model->file->folder = zt_path_folder(path);
    struct reader r = { .model = model, .file = model->file, .err = err };
    int first = err->count;
    bool ok = zt_file_map(&model->file->map, path, ZT_EXIT_MODEL, err);
    if (ok && !read_model(&r))
        ok = zt_err_within(err, first, "%s", path);
    if (ok)
        return model;
    zt_onnx_destroy(model);
    return NULL;
}

bool zt_onnx_stores(const struct zt_onnx *model, const char *name) {
    return zt_map_get(&model->file->stored_by_name, name, -1) >= 0;
}

void zt_onnx_destroy(struct zt_onnx *model) {
    if (!model)
        return;
    struct zt_onnx_file *f = model->file;
    zt_graph_destroy(model->graph);
    for (int i = 0; i < f->externals.count; i++)
        zt_file_unmap(&f->externals.at[i].map);
    zt_vec_finish(&f->externals);
    zt_map_finish(&f->external_by_location);
    zt_vec_finish(&f->stored);
    zt_map_finish(&f->stored_by_name);
    zt_onnx_scan_finish(&f->scan);
    zt_file_unmap(&f->map);
    free(f->folder);
    zt_arena_destroy(f->arena);
}
