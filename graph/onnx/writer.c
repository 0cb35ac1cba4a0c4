#include "graph/onnx/writer.h"

#include "graph/onnx/varint.h"

#include <inttypes.h>
#include <string.h>

const char *zt_onnx_text_of(const struct zt_onnx_writer *w, const struct zt_wire_field *field) {
    return zt_arena_strndup(w->arena, (const char *)w->scan->file + field->data, field->end - field->data);
}

const char *zt_onnx_text_field(const struct zt_onnx_writer *w, int message, uint32_t number, int skip) {
    struct zt_wire_field field;
    for (size_t at = 0; zt_onnx_find_field(w->scan, message, number, &at, &field);)
        if (skip-- == 0)
            return zt_onnx_text_of(w, &field);
    return NULL;
}

uint64_t zt_onnx_bytes_of(const struct zt_tensor *tensor) {
    return zt_packed_bytes((uint64_t)zt_shape_count(&tensor->shape), zt_dtype_bits(tensor->dtype));
}

void zt_onnx_put_number(struct zt_text *to, uint32_t field, enum zt_wire_type wire, uint64_t value) {
    unsigned char varint[10];
    zt_text_add_bytes(to, varint, (size_t)zt_wire_put_varint(varint, (uint64_t)field << 3 | (uint64_t)wire));
    zt_text_add_bytes(to, varint, (size_t)zt_wire_put_varint(varint, value));
}

void zt_onnx_put_text(struct zt_text *to, uint32_t field, const char *text, size_t length) {
    zt_onnx_put_number(to, field, ZT_WIRE_BYTES, length);
    zt_text_add_bytes(to, text, length);
}

void zt_onnx_insert(struct zt_onnx_writer *w, int message, size_t at, size_t end, struct zt_text *bytes) {
    zt_onnx_edit_replace(&w->edits, message, at, end, zt_arena_copy(w->arena, bytes->at, bytes->length), bytes->length);
    zt_text_finish(bytes);
}

static void put_entry(struct zt_text *to, uint32_t field, const char *key, const char *value) {
    struct zt_text inside = { 0 };
    zt_onnx_put_text(&inside, 1, key, strlen(key));
    zt_onnx_put_text(&inside, 2, value, strlen(value));
    zt_onnx_put_text(to, field, inside.at, inside.length);
    zt_text_finish(&inside);
}

void zt_onnx_put_outside(struct zt_onnx_writer *w, struct zt_text *to, const void *data, uint64_t bytes) {
    w->data_size = (w->data_size + ZT_EXTERNAL_ALIGN - 1) / ZT_EXTERNAL_ALIGN * ZT_EXTERNAL_ALIGN;
    zt_vec_push(&w->stretches, (struct zt_onnx_stretch){ data, bytes, w->data_size });
    put_entry(to, ZT_TENSOR_EXTERNAL_DATA, "location", w->data_name);
    put_entry(to, ZT_TENSOR_EXTERNAL_DATA, "offset", zt_arena_printf(w->arena, "%" PRIu64, w->data_size));
    put_entry(to, ZT_TENSOR_EXTERNAL_DATA, "length", zt_arena_printf(w->arena, "%" PRIu64, bytes));
    zt_onnx_put_number(to, ZT_TENSOR_DATA_LOCATION, ZT_WIRE_VARINT, 1);
    w->data_size += bytes;
}

void zt_onnx_insert_initializer(struct zt_onnx_writer *w, const char *name, const struct zt_onnx_mark *mark,
                                const struct zt_tensor *tensor, const void *data) {
    size_t at = w->scan->messages.at[w->last_initializer].end;
    uint64_t bytes = zt_onnx_bytes_of(tensor), here = w->too_large && bytes >= ZT_EXTERNAL_FROM_BYTES ? 0 : bytes;
    struct zt_text inside = { 0 }, head = { 0 };
    for (int i = 0; i < tensor->shape.rank; i++)
        zt_onnx_put_number(&inside, ZT_TENSOR_DIMS, ZT_WIRE_VARINT, (uint64_t)tensor->shape.dim[i]);
    zt_onnx_put_number(&inside, ZT_TENSOR_DATA_TYPE, ZT_WIRE_VARINT, (uint64_t)tensor->dtype);
    zt_onnx_put_text(&inside, ZT_TENSOR_NAME, name, strlen(name));
    if (mark)
        put_entry(&inside, ZT_TENSOR_METADATA, mark->key, mark->value);
    if (here == bytes)
        zt_onnx_put_number(&inside, ZT_TENSOR_RAW_DATA, ZT_WIRE_BYTES, bytes);
    else
        zt_onnx_put_outside(w, &inside, data, bytes);
    zt_onnx_put_number(&head, ZT_GRAPH_INITIALIZER, ZT_WIRE_BYTES, inside.length + here);
    zt_onnx_insert(w, w->graph, at, at, &head);
    zt_onnx_insert(w, w->graph, at, at, &inside);
    zt_onnx_edit_replace(&w->edits, w->graph, at, at, data, (size_t)here);
}

void zt_onnx_read_instead(struct zt_onnx_writer *w, int node, int in, const char *name) {
    struct zt_wire_field field;
    struct zt_text input = { 0 };
    size_t start = w->scan->messages.at[node].at, end = start;
    for (size_t at = 0; in >= 0 && zt_onnx_find_field(w->scan, node, ZT_NODE_INPUT, &at, &field); in--) {
        start = in ? field.end : field.at;
        end = field.end;
    }
    zt_onnx_put_text(&input, ZT_NODE_INPUT, name, strlen(name));
    zt_onnx_insert(w, node, start, end, &input);
}

void zt_onnx_names_taken(const struct zt_onnx_writer *w, struct zt_map *taken) {
    struct zt_wire_field field;
    for (int i = 0; i < w->scan->messages.count; i++)
        if (w->scan->messages.at[i].type == &onnx__node_proto__descriptor)
            for (uint32_t number = ZT_NODE_INPUT; number <= ZT_NODE_OUTPUT; number++)
                for (size_t at = 0; zt_onnx_find_field(w->scan, i, number, &at, &field);)
                    zt_map_put(taken, zt_onnx_text_of(w, &field), 1);
}
