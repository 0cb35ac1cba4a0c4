/* The trained model with initializers of 16 bits: the type of a tensor changes where the file states it, and nodes read
 * a Cast to float. */
#include "graph/onnx/writer.h"

#include <string.h>

/* Whether an edit may be made in a node: it is in the graph or inside one of its nodes, and stays. */
static bool stays(const struct zt_onnx_writer *w, int node) {
    const struct zt_onnx_message *m = &w->scan->messages.at[node], *graph = &w->scan->messages.at[w->graph];
    const char *output = zt_onnx_text_field(w, node, ZT_NODE_OUTPUT, 0);
    return m->type == &onnx__node_proto__descriptor && m->at >= graph->at && m->end <= graph->end &&
           !(output && zt_map_get(&w->alias_by_name, output, -1) == node);
}

static bool is_cast(const struct zt_onnx_writer *w, int node) {
    const char *type = zt_onnx_text_field(w, node, ZT_NODE_OP_TYPE, 0),
               *domain = zt_onnx_text_field(w, node, ZT_NODE_DOMAIN, 0);
    return type && strcmp(type, "Cast") == 0 && (!domain || !domain[0]);
}

/* A name for the Cast of `name`, which no value has. */
static const char *cast_name(struct zt_onnx_writer *w, const struct zt_map *taken, const char *name) {
    const char *cast = zt_arena_printf(w->arena, "%s.fp32", name);
    while (zt_map_get(taken, cast, 0))
        cast = zt_arena_printf(w->arena, "%s.fp32", cast);
    return cast;
}

static void insert_cast(struct zt_onnx_writer *w, const char *from, const char *to) {
    struct zt_text attribute = { 0 }, node = { 0 }, whole = { 0 };
    zt_onnx_put_text(&attribute, ZT_ATTRIBUTE_NAME, "to", 2);
    zt_onnx_put_number(&attribute, ZT_ATTRIBUTE_I, ZT_WIRE_VARINT, ZT_FLOAT);
    zt_onnx_put_number(&attribute, ZT_ATTRIBUTE_TYPE, ZT_WIRE_VARINT, ZT_ATTR_INT);
    zt_onnx_put_text(&node, ZT_NODE_INPUT, from, strlen(from));
    zt_onnx_put_text(&node, ZT_NODE_OUTPUT, to, strlen(to));
    zt_onnx_put_text(&node, ZT_NODE_NAME, to, strlen(to));
    zt_onnx_put_text(&node, ZT_NODE_OP_TYPE, "Cast", 4);
    zt_onnx_put_text(&node, ZT_NODE_ATTRIBUTE, attribute.at, attribute.length);
    zt_onnx_put_text(&whole, ZT_GRAPH_NODE, node.at, node.length);
    const size_t at = w->scan->messages.at[w->graph].at;
    zt_onnx_insert(w, w->graph, at, at, &whole);
    zt_text_finish(&attribute);
    zt_text_finish(&node);
}

static bool is_half(const struct zt_onnx_writer *w, int payload) {
    return payload >= 0 && w->changes->payloads[payload].half != ZT_UNDEFINED;
}

/* The name of the Cast of a payload, which is inserted in the end. */
static const char *cast_of(struct zt_onnx_writer *w, const struct zt_map *taken, int payload) {
    if (!w->cast[payload])
        w->cast[payload] = cast_name(w, taken, w->changes->payloads[payload].name);
    return w->cast[payload];
}

/* Lets a node read the Casts of its inputs. Nodes that read a pair of quantization do not: the pair reads the Cast. */
static void read_casts(struct zt_onnx_writer *w, int node, const struct zt_map *taken) {
    struct zt_wire_field field;
    int in = 0;
    for (size_t at = 0; zt_onnx_find_field(w->scan, node, ZT_NODE_INPUT, &at, &field); in++) {
        const int i = zt_map_get(&w->payload_by_name, zt_onnx_text_of(w, &field), -1);
        struct zt_text input = { 0 };
        if (!is_half(w, i) || zt_onnx_is_owned(w, node, in) || zt_onnx_reads_pair(w, node, in))
            continue;
        const char *cast = cast_of(w, taken, i);
        zt_onnx_put_text(&input, ZT_NODE_INPUT, cast, strlen(cast));
        zt_onnx_insert(w, node, field.at, field.end, &input);
    }
}

/* The type of an initializer where the file states it again: as a graph input, before IR version 4, or in value_info.
 */
static void retype_info(struct zt_onnx_writer *w, int message) {
    static const uint32_t path[] = { ZT_VALUE_INFO_TYPE, ZT_TYPE_TENSOR, ZT_TENSOR_TYPE_ELEM };
    const struct zt_onnx_message *m = &w->scan->messages.at[message];
    const char *name = zt_onnx_text_field(w, message, ZT_VALUE_INFO_NAME, 0);
    const int i = name ? zt_map_get(&w->payload_by_name, name, -1) : -1;
    struct zt_wire_field field = { .data = m->at, .end = m->end };
    struct zt_text type = { 0 };
    if (!is_half(w, i))
        return;
    for (size_t k = 0; k < sizeof path / sizeof *path; k++) {
        size_t at = field.data, end = field.end;
        do {
            if (at >= end || zt_wire_next(w->scan->file, at, end, &field))
                return;
            at = field.end;
        } while (field.number != path[k]);
    }
    zt_onnx_put_number(&type, ZT_TENSOR_TYPE_ELEM, ZT_WIRE_VARINT, (uint64_t)w->changes->payloads[i].half);
    zt_onnx_insert(w, message, field.at, field.end,
                   &type); /* as long as what was there: one byte of tag, one of type */
}

bool zt_onnx_edit_halves(struct zt_onnx_writer *w) {
    struct zt_map taken = { 0 };
    bool any = false;
    for (int i = 0; i < w->changes->payload_count; i++)
        any |= is_half(w, i);
    if (!any)
        return true;
    w->cast = ZT_NEW_N(w->arena, const char *, w->changes->payload_count + 1);
    zt_onnx_names_taken(w, &taken);
    for (int i = 0; i < w->scan->messages.count; i++) {
        const struct zt_onnx_message *m = &w->scan->messages.at[i];
        if (m->type == &onnx__node_proto__descriptor && stays(w, i) && !is_cast(w, i))
            read_casts(w, i, &taken);
        else if (m->parent == w->graph && (m->field == ZT_GRAPH_INPUT || m->field == ZT_GRAPH_VALUE_INFO))
            retype_info(w, i);
    }
    for (int i = 0; i < w->changes->pair_count; i++) {
        const int payload = zt_map_get(&w->payload_by_name, w->changes->pairs[i].value, -1);
        if (is_half(w, payload))
            cast_of(w, &taken, payload);
    }
    for (int i = 0; i < w->changes->payload_count; i++)
        if (w->cast[i])
            insert_cast(w, w->changes->payloads[i].name, w->cast[i]);
    zt_map_finish(&taken);
    return true;
}
