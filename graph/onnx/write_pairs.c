/* The trained model with QuantizeLinear and DequantizeLinear: the readers of a value read what a pair makes of it. */
#include "graph/onnx/writer.h"

#include <string.h>

struct names {
    struct zt_map taken;
    struct zt_onnx_writer *w;
};

/* A name of which there is no value yet. */
static const char *free_name(struct names *n, const char *value, const char *what) {
    const char *name = zt_arena_printf(n->w->arena, "%s.%s", value, what);
    while (zt_map_get(&n->taken, name, 0) || zt_map_get(&n->w->file->stored_by_name, name, -1) >= 0)
        name = zt_arena_printf(n->w->arena, "%s.%s", name, what);
    zt_map_put(&n->taken, name, 1);
    return name;
}

static void put_axis(struct zt_text *node, int64_t axis) {
    struct zt_text attribute = { 0 };
    zt_onnx_put_text(&attribute, ZT_ATTRIBUTE_NAME, "axis", 4);
    zt_onnx_put_number(&attribute, ZT_ATTRIBUTE_I, ZT_WIRE_VARINT, (uint64_t)axis);
    zt_onnx_put_number(&attribute, ZT_ATTRIBUTE_TYPE, ZT_WIRE_VARINT, ZT_ATTR_INT);
    zt_onnx_put_text(node, ZT_NODE_ATTRIBUTE, attribute.at, attribute.length);
    zt_text_finish(&attribute);
}

/* A node in front of message `before`. */
static void insert_node(struct zt_onnx_writer *w, int before, const char *op_type, const char *const in[3],
                        const char *out, int axis) {
    struct zt_text node = { 0 }, whole = { 0 };
    const size_t at = w->scan->messages.at[before].tag_at;
    for (int i = 0; i < 3; i++)
        zt_onnx_put_text(&node, ZT_NODE_INPUT, in[i], strlen(in[i]));
    zt_onnx_put_text(&node, ZT_NODE_OUTPUT, out, strlen(out));
    zt_onnx_put_text(&node, ZT_NODE_NAME, out, strlen(out));
    zt_onnx_put_text(&node, ZT_NODE_OP_TYPE, op_type, strlen(op_type));
    if (axis >= 0)
        put_axis(&node, axis);
    zt_onnx_put_text(&whole, ZT_GRAPH_NODE, node.at, node.length);
    zt_onnx_insert(w, w->graph, at, at, &whole);
    zt_text_finish(&node);
}

static const char *insert_numbers(struct names *n, const struct zt_onnx_pair *pair, const char *what,
                                  const struct zt_tensor *numbers) {
    const char *name = free_name(n, pair->value, what);
    zt_onnx_insert_initializer(n->w, name, NULL, numbers, zt_onnx_raw(n->w->arena, numbers, &(size_t){ 0 }));
    return name;
}

bool zt_onnx_reads_pair(const struct zt_onnx_writer *w, int node, int in) {
    for (int p = 0; p < w->changes->pair_count; p++)
        for (int i = 0; i < w->changes->pairs[p].reader_count; i++) {
            const struct zt_onnx_reader *r = &w->changes->pairs[p].readers[i];
            if (r->node >= 0 && r->node < w->nodes.count && w->nodes.at[r->node] == node && r->in == in)
                return true;
        }
    return false;
}

/* A value, or its Cast where it is written in 16 bits. */
static const char *in_float(const struct zt_onnx_writer *w, const char *value) {
    const int i = zt_map_get(&w->payload_by_name, value, -1);
    return i >= 0 && w->cast && w->cast[i] ? w->cast[i] : value;
}

static bool edit_pair(struct names *n, const struct zt_onnx_pair *pair) {
    struct zt_onnx_writer *w = n->w;
    int first = -1;
    for (int i = 0; i < pair->reader_count; i++) {
        if (pair->readers[i].node < 0 || pair->readers[i].node >= w->nodes.count)
            return zt_fail(w->err, ZT_EXIT_MODEL, "tensor \"%s\": the node that reads it is not in the file",
                           pair->value);
        if (first < 0 || pair->readers[i].node < first)
            first = pair->readers[i].node;
    }
    if (first < 0)
        return true;
    const char *scale = insert_numbers(n, pair, "scale", &pair->scale);
    const char *zero = insert_numbers(n, pair, "zero_point", &pair->zero);
    const char *quantized = free_name(n, pair->value, "quantized");
    const char *dequantized = free_name(n, pair->value, "dequantized");
    const int before = w->nodes.at[first];
    insert_node(w, before, "QuantizeLinear", (const char *const[]){ in_float(w, pair->value), scale, zero }, quantized,
                pair->axis);
    insert_node(w, before, "DequantizeLinear", (const char *const[]){ quantized, scale, zero }, dequantized,
                pair->axis);
    for (int i = 0; i < pair->reader_count; i++)
        zt_onnx_read_instead(w, w->nodes.at[pair->readers[i].node], pair->readers[i].in, dequantized);
    return true;
}

bool zt_onnx_edit_pairs(struct zt_onnx_writer *w) {
    struct names names = { .w = w };
    bool ok = true;
    if (!w->changes->pair_count)
        return true;
    if (w->last_initializer < 0)
        return zt_fail(w->err, ZT_EXIT_MODEL, "has no initializers, beside which scales could stand");
    zt_onnx_names_taken(w, &names.taken);
    for (int i = 0; i < w->changes->pair_count && ok; i++)
        ok = edit_pair(&names, &w->changes->pairs[i]);
    zt_map_finish(&names.taken);
    return ok;
}
