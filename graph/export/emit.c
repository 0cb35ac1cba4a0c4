/* Writes a graph as an ONNX file whose nodes are standard operators or calls of local functions made of them.
 *
 * The whole file has one opset: at least the model's, and high enough for every node that a gradient rule emitted. A
 * node of domain ztrain, or whose row has another meaning at that opset, becomes a call of a local function; its row
 * writes the function body (graph/export/function_body.h). Nodes with equal bodies share a function. */
#include "graph/export/function_body.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"

#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"

#include "onnx.pb-c.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char own_domain[] = "ztrain";

/* A function in the file. Equal bytes identify equal bodies. */
struct function {
    Onnx__FunctionProto *proto;
    uint64_t hash;
    const uint8_t *bytes;
    size_t size;
};

struct emitter {
    const struct zt_graph *g;
    const struct zt_op_table *table;
    struct zt_arena *arena;
    int opset;
    ZT_VEC(struct function) functions;
    ZT_VEC(Onnx__NodeProto *) nodes;
    ZT_VEC(Onnx__TensorProto *) initializers;
    struct zt_map function_names, node_names;
    bool *read; /* by value: an added node reads it, or it is an output */
    struct zt_err *err;
};

/* ---- protobuf messages: borrowed text and data must live as long as the graph and the arena ---- */

static char *borrow(const char *text) {
    return (char *)text;
}

static Onnx__TensorProto *tensor_proto(struct emitter *e, const char *name, const struct zt_tensor *tensor) {
    Onnx__TensorProto *t = ZT_NEW(e->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(t);
    t->name = borrow(name);
    t->has_data_type = t->has_raw_data = true;
    t->data_type = (int32_t)tensor->dtype;
    t->n_dims = (size_t)tensor->shape.rank;
    t->dims = zt_arena_copy(e->arena, tensor->shape.dim, sizeof tensor->shape.dim);
    t->raw_data.data = (uint8_t *)zt_onnx_raw(e->arena, tensor, &t->raw_data.len);
    return t;
}

static Onnx__ValueInfoProto *value_info(struct emitter *e, const char *name, enum zt_dtype dtype,
                                        const struct zt_shape *shape) {
    Onnx__ValueInfoProto *info = ZT_NEW(e->arena, Onnx__ValueInfoProto);
    Onnx__TypeProto *type = ZT_NEW(e->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = ZT_NEW(e->arena, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *dims = ZT_NEW(e->arena, Onnx__TensorShapeProto);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(dims);
    info->name = borrow(name);
    info->type = type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = (int32_t)dtype;
    tensor->shape = dims;
    dims->dim = ZT_NEW_N(e->arena, Onnx__TensorShapeProto__Dimension *, shape->rank);
    for (int i = 0; i < shape->rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = ZT_NEW(e->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = shape->dim[i];
        dims->dim[dims->n_dim++] = d;
    }
    return info;
}

static Onnx__OperatorSetIdProto *opset_proto(struct emitter *e, const char *domain, int version) {
    Onnx__OperatorSetIdProto *o = ZT_NEW(e->arena, Onnx__OperatorSetIdProto);
    onnx__operator_set_id_proto__init(o);
    o->domain = borrow(domain);
    o->has_version = true;
    o->version = version;
    return o;
}

static ProtobufCBinaryData bytes_of(const char *text) {
    return (ProtobufCBinaryData){ strlen(text), (uint8_t *)text };
}

/* NULL: the attribute's contents are in the model's file and were not read. */
static Onnx__AttributeProto *attribute_proto(struct emitter *e, const struct zt_attr *a) {
    Onnx__AttributeProto *p = ZT_NEW(e->arena, Onnx__AttributeProto);
    onnx__attribute_proto__init(p);
    p->name = borrow(a->name);
    p->has_type = true;
    p->type = (int32_t)a->type;
    switch (a->type) {
    case ZT_ATTR_FLOAT:
        p->has_f = true, p->f = a->f;
        return p;
    case ZT_ATTR_INT:
        p->has_i = true, p->i = a->i;
        return p;
    case ZT_ATTR_STRING:
        p->has_s = true, p->s = bytes_of(a->s ? a->s : "");
        return p;
    case ZT_ATTR_FLOATS:
        p->n_floats = (size_t)a->count, p->floats = (float *)a->floats;
        return p;
    case ZT_ATTR_INTS:
        p->n_ints = (size_t)a->count, p->ints = (int64_t *)a->ints;
        return p;
    case ZT_ATTR_STRINGS:
        p->n_strings = (size_t)a->count;
        p->strings = ZT_NEW_N(e->arena, ProtobufCBinaryData, a->count);
        for (int i = 0; i < a->count; i++)
            p->strings[i] = bytes_of(a->strings[i]);
        return p;
    case ZT_ATTR_TENSOR:
        p->t = tensor_proto(e, NULL, &a->tensor);
        return zt_dtype_bytes(a->tensor.dtype) ? p : NULL;
    default:
        return NULL;
    }
}

struct node_text {
    const char *name, *op_type, *domain; /* name and domain may be NULL */
    const char **in;
    int in_count;
    const char **out;
    int out_count;
};

static Onnx__NodeProto *node_proto(struct emitter *e, const struct node_text *text) {
    Onnx__NodeProto *p = ZT_NEW(e->arena, Onnx__NodeProto);
    onnx__node_proto__init(p);
    p->name = borrow(text->name);
    p->op_type = borrow(text->op_type);
    p->domain = borrow(text->domain);
    p->input = (char **)text->in;
    p->n_input = (size_t)text->in_count;
    p->output = (char **)text->out;
    p->n_output = (size_t)text->out_count;
    return p;
}

/* ---- functions ---- */

static Onnx__FunctionProto *function_proto(struct emitter *e, const struct zt_function_body *b) {
    Onnx__FunctionProto *f = ZT_NEW(e->arena, Onnx__FunctionProto);
    onnx__function_proto__init(f);
    f->domain = borrow(own_domain);
    f->input = zt_arena_copy(e->arena, b->in, sizeof *b->in * (size_t)b->in_count);
    f->n_input = (size_t)b->in_count;
    f->output = zt_arena_copy(e->arena, b->out, sizeof *b->out * (size_t)b->out_count);
    f->n_output = (size_t)b->out_count;
    f->n_opset_import = 1;
    f->opset_import = ZT_NEW(e->arena, Onnx__OperatorSetIdProto *);
    f->opset_import[0] = opset_proto(e, "", e->opset);
    f->node = ZT_NEW_N(e->arena, Onnx__NodeProto *, b->nodes.count);
    for (int i = 0; i < b->nodes.count; i++) {
        const struct zt_function_body_node *n = &b->nodes.at[i];
        Onnx__NodeProto *p =
            node_proto(e, &(struct node_text){ NULL, n->op_type, NULL, n->in, n->in_count, n->out, n->out_count });
        p->attribute = ZT_NEW_N(e->arena, Onnx__AttributeProto *, n->attr_count);
        for (int a = 0; a < n->attr_count; a++)
            p->attribute[p->n_attribute++] = attribute_proto(e, &n->attr[a]);
        f->node[f->n_node++] = p;
    }
    return f;
}

static const char *function_name(struct emitter *e, const char *op_type) {
    int number = zt_map_get(&e->function_names, op_type, 0) + 1;
    zt_map_put(&e->function_names, op_type, number);
    return number == 1 ? op_type : zt_arena_printf(e->arena, "%s_%d", op_type, number);
}

/* The name of a function with this body: an earlier function with equal bytes, else a new one. */
static const char *find_function(struct emitter *e, const struct zt_function_body *body, const char *op_type) {
    struct function made = { .proto = function_proto(e, body) };
    made.proto->doc_string = zt_arena_printf(e->arena, "ztrain's %s", op_type);
    made.size = onnx__function_proto__get_packed_size(made.proto);
    uint8_t *bytes = zt_arena_alloc(e->arena, made.size);
    onnx__function_proto__pack(made.proto, bytes);
    made.bytes = bytes;
    made.hash = zt_hash(ZT_HASH_START, bytes, made.size);
    for (int i = 0; i < e->functions.count; i++) {
        const struct function *f = &e->functions.at[i];
        if (f->hash == made.hash && f->size == made.size && memcmp(f->bytes, bytes, made.size) == 0)
            return f->proto->name;
    }
    made.proto->name = borrow(function_name(e, op_type));
    zt_vec_push(&e->functions, made);
    return made.proto->name;
}

/* ---- nodes ---- */

/* The names of the values, "" for an omitted one. *used: their number without omitted ones at the end. */
static const char **names_of(struct emitter *e, const int *ids, int count, int *used) {
    const char **names = ZT_NEW_N(e->arena, const char *, count);
    *used = 0;
    for (int i = 0; i < count; i++) {
        names[i] = ids[i] < 0 ? "" : e->g->values[ids[i]]->name;
        *used = ids[i] < 0 ? *used : i + 1;
    }
    return names;
}

/* Marks the input of an added node as read. */
static void read_value(struct emitter *e, int value) {
    if (value >= 0)
        e->read[value] = true;
}

static bool is_read(const struct emitter *e, const struct zt_node *n) {
    for (int i = 0; i < n->out_count; i++)
        if (n->out[i] >= 0 && e->read[n->out[i]])
            return true;
    return false;
}

/* Forward nodes keep the model's names; gradient nodes of one node share a name, so the later ones get a number. */
static const char *node_name(struct emitter *e, const char *name) {
    int number = zt_map_get(&e->node_names, name, 0) + 1;
    zt_map_put(&e->node_names, name, number);
    return number == 1 ? name : zt_arena_printf(e->arena, "%s %d", name, number);
}

static bool add_plain_node(struct emitter *e, int node) {
    const struct zt_node *n = e->g->nodes[node];
    int in_count, out_count;
    const char **in = names_of(e, n->in, n->in_count, &in_count);
    const char **out = names_of(e, n->out, n->out_count, &out_count);
    Onnx__NodeProto *p = node_proto(
        e, &(struct node_text){ node_name(e, n->name), n->op_type, n->domain, in, in_count, out, out_count });
    p->attribute = ZT_NEW_N(e->arena, Onnx__AttributeProto *, n->attr_count);
    for (int i = 0; i < n->attr_count; i++) {
        Onnx__AttributeProto *a = attribute_proto(e, &n->attr[i]);
        if (!a)
            return zt_node_fail(e->g, node, e->err, "attribute \"%s\" cannot be emitted", n->attr[i].name);
        p->attribute[p->n_attribute++] = a;
    }
    for (int i = 0; i < n->in_count; i++)
        read_value(e, n->in[i]);
    zt_vec_push(&e->nodes, p);
    return true;
}

static Onnx__NodeProto *call_proto(struct emitter *e, const struct zt_function_body *body) {
    const struct zt_node *n = e->g->nodes[body->node];
    const char **in = ZT_NEW_N(e->arena, const char *, n->in_count);
    const char **out = ZT_NEW_N(e->arena, const char *, n->out_count);
    int outs = 0;
    for (int i = 0; i < body->in_count; i++) {
        in[i] = e->g->values[body->in_value[i]]->name;
        read_value(e, body->in_value[i]);
    }
    for (int i = 0; i < n->out_count; i++)
        if (zt_function_body_wants(body, i))
            out[outs++] = e->g->values[n->out[i]]->name;
    const char *function = find_function(e, body, n->op_type);
    return node_proto(
        e, &(struct node_text){ node_name(e, n->name), function, own_domain, in, body->in_count, out, outs });
}

static bool add_call(struct emitter *e, int node) {
    const struct zt_node *n = e->g->nodes[node];
    struct zt_function_body body;
    if (!n->op->body)
        return zt_node_fail(e->g, node, e->err, "cannot be emitted: %s has no form in standard operators of opset %d",
                            n->op_type, e->opset);
    zt_function_body_start(&body, e->arena, e->g, node, e->read);
    bool ok = n->op->body(&body, e->g, node, e->err) && zt_function_body_close(&body, e->err);
    if (ok)
        zt_vec_push(&e->nodes, call_proto(e, &body));
    zt_function_body_finish(&body);
    return ok;
}

/* Whether the node has the same meaning at the file's opset as at its own. */
static bool is_standard(const struct emitter *e, int node) {
    const struct zt_node *n = e->g->nodes[node];
    bool redefined = n->opset < n->op->redefined_in && n->op->redefined_in <= e->opset;
    return !n->domain[0] && !redefined && zt_op_find(e->table, "", n->op_type, e->opset) == n->op;
}

/* Visits the nodes from last to first. A node whose outputs no added node reads is omitted: function bodies may not use
 * all inputs. */
static bool add_nodes(struct emitter *e) {
    bool ok = true;
    int first = e->nodes.count;
    for (int i = e->g->node_count - 1; i >= 0; i--)
        if (!e->g->nodes[i]->dead && is_read(e, e->g->nodes[i]))
            ok &= is_standard(e, i) ? add_plain_node(e, i) : add_call(e, i);
    for (int i = first, k = e->nodes.count - 1; i < k; i++, k--) {
        Onnx__NodeProto *node = e->nodes.at[i];
        e->nodes.at[i] = e->nodes.at[k];
        e->nodes.at[k] = node;
    }
    return ok;
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

static void choose_opset(struct emitter *e) {
    e->opset = ZT_FUNCTION_BODY_OPSET;
    for (int i = 0; i < e->g->node_count; i++) {
        const struct zt_node *n = e->g->nodes[i];
        if (n->dead || n->domain[0])
            continue;
        int newest = max_int(n->op->since, n->op->redefined_in);
        e->opset = max_int(e->opset, n->phase == ZT_BACKWARD ? newest : n->opset);
    }
}

/* ---- values ---- */

static bool store(struct emitter *e, int value) {
    const struct zt_value *v = e->g->values[value];
    if (v->origin != ZT_FROM_INITIALIZER && v->origin != ZT_FROM_CONSTANT)
        return true;
    if (!zt_dtype_bytes(v->dtype) || (!v->data && zt_shape_count(&v->shape)))
        return zt_fail(e->err, ZT_EXIT_MODEL, "tensor \"%s\" of type %s cannot be emitted", v->name,
                       zt_dtype_name(v->dtype));
    zt_vec_push(&e->initializers, tensor_proto(e, v->name, &(struct zt_tensor){ v->dtype, v->shape, v->data }));
    return true;
}

static bool add_initializers(struct emitter *e) {
    bool ok = true;
    for (int v = 0; v < e->g->value_count; v++)
        ok &= !e->read[v] || store(e, v);
    return ok;
}

static Onnx__ValueInfoProto *input_info(struct emitter *e, int value) {
    const struct zt_value *v = e->g->values[value];
    return value_info(e, v->name, v->dtype, &v->shape);
}

/* An output whose name differs from its value's name is an Identity of the value. */
static Onnx__ValueInfoProto *output_info(struct emitter *e, const struct zt_emit_output *output) {
    const struct zt_value *v = e->g->values[output->value];
    if (strcmp(output->name, v->name) != 0) {
        const char **in = ZT_NEW(e->arena, const char *), **out = ZT_NEW(e->arena, const char *);
        in[0] = v->name;
        out[0] = output->name;
        zt_vec_push(&e->nodes,
                    node_proto(e, &(struct node_text){ node_name(e, output->name), "Identity", "", in, 1, out, 1 }));
    }
    return value_info(e, output->name, v->dtype, &v->shape);
}

/* ---- the file ---- */

static void add_values(struct emitter *e, const struct zt_emit *what, Onnx__GraphProto *graph) {
    graph->input = ZT_NEW_N(e->arena, Onnx__ValueInfoProto *, what->input_count);
    for (int i = 0; i < what->input_count; i++)
        graph->input[graph->n_input++] = input_info(e, what->inputs[i]);
    graph->output = ZT_NEW_N(e->arena, Onnx__ValueInfoProto *, what->output_count);
    for (int i = 0; i < what->output_count; i++)
        graph->output[graph->n_output++] = output_info(e, &what->outputs[i]);
}

/* A protobuf-c buffer that writes to a file, so that weights are not copied into one message. */
struct sink {
    ProtobufCBuffer base;
    FILE *to;
};

static void append(ProtobufCBuffer *buffer, size_t bytes, const uint8_t *data) {
    fwrite(data, 1, bytes, ((struct sink *)buffer)->to);
}

static bool write_model(struct emitter *e, const Onnx__ModelProto *model, const char *path) {
    struct zt_file_out out;
    size_t size = onnx__model_proto__get_packed_size(model);
    if (size > INT_MAX)
        return zt_fail(e->err, ZT_EXIT_MODEL, "%s: its graph takes %zu bytes, more than the 2 GB of an ONNX file", path,
                       size);
    if (!zt_file_out_open(&out, path, e->err))
        return false;
    struct sink sink = { { .append = append }, out.stream };
    onnx__model_proto__pack_to_buffer(model, &sink.base);
    return zt_file_out_commit(&out, e->err);
}

enum { EMIT_IR_VERSION = 10 };

static bool write_graph(struct emitter *e, const struct zt_emit *what, const char *path) {
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__OperatorSetIdProto *opsets[2] = { opset_proto(e, "", e->opset), opset_proto(e, own_domain, 1) };
    add_values(e, what, &graph);
    graph.name = borrow(e->g->name && e->g->name[0] ? e->g->name : "graph");
    graph.doc_string = borrow(what->doc);
    graph.node = e->nodes.at;
    graph.n_node = (size_t)e->nodes.count;
    graph.initializer = e->initializers.at;
    graph.n_initializer = (size_t)e->initializers.count;
    model.has_ir_version = true;
    model.ir_version = EMIT_IR_VERSION;
    model.producer_name = borrow("ztrain");
    model.graph = &graph;
    model.opset_import = opsets;
    model.n_opset_import = 2;
    model.functions = ZT_NEW_N(e->arena, Onnx__FunctionProto *, e->functions.count);
    for (int i = 0; i < e->functions.count; i++)
        model.functions[model.n_functions++] = e->functions.at[i].proto;
    return write_model(e, &model, path);
}

bool zt_onnx_emit(const struct zt_graph *g, const struct zt_op_table *table, const struct zt_emit *what,
                  const char *path, struct zt_err *err) {
    struct emitter e = { .g = g, .table = table, .arena = zt_arena_create(), .err = err };
    const int before = err->count;
    e.read = ZT_NEW_N(e.arena, bool, g->value_count);
    for (int i = 0; i < what->output_count; i++)
        e.read[what->outputs[i].value] = true;
    choose_opset(&e);
    bool ok =
        (add_nodes(&e) && add_initializers(&e)) || (what->source && zt_err_within(err, before, "%s", what->source));
    ok = ok && write_graph(&e, what, path);
    zt_vec_finish(&e.functions);
    zt_vec_finish(&e.nodes);
    zt_vec_finish(&e.initializers);
    zt_map_finish(&e.function_names);
    zt_map_finish(&e.node_names);
    zt_arena_destroy(e.arena);
    return ok;
}
