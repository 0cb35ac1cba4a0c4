/* The trained model: the bytes of the file that was read, with a list of edits (graph/onnx/edit.h).
 *
 *     payload         the data field of its tensor gets new contents, in the form it had (raw bytes, or typed numbers)
 *     alias           its Identity node goes, a new initializer stands behind the last one
 *     own initializer stands behind the last one, the input of its node names it
 *     half payload    data and type of its tensor change; nodes read a Cast to float of it, NAME.fp32
 *     pair            its two nodes stand in front of the first reader, its numbers behind the last initializer
 *     inference node  its attribute or input training_mode, its outputs after the first, and their value_info go
 *     external data   all of them, wherever in the file, go to one new file NAME.data; so does every initializer where
 * the model would pass the 2 GB that protobuf allows
 */
#include "graph/onnx/writer.h"

#include "graph/onnx/varint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL_LIMIT ((UINT64_C(1) << 31) - 1)

/* ---- looking things up on the wire ---- */

static void find_messages(struct zt_onnx_writer *w) {
    w->graph = w->last_initializer = -1;
    for (int i = 1; i < w->scan->messages.count; i++) {
        const struct zt_onnx_message *m = &w->scan->messages.at[i];
        if (m->parent == 0 && m->field == ZT_MODEL_GRAPH)
            w->graph = i;
        else if (w->graph >= 0 && m->parent == w->graph && m->field == ZT_GRAPH_INITIALIZER)
            w->last_initializer = i;
        else if (w->graph >= 0 && m->parent == w->graph && m->field == ZT_GRAPH_NODE)
            zt_vec_push(&w->nodes, i);
    }
}

static const struct zt_onnx_stored *find_stored(const struct zt_onnx_writer *w, const char *name) {
    int i = zt_map_get(&w->file->stored_by_name, name, -1);
    return i < 0 ? NULL : &w->file->stored.at[i];
}

/* The type in which an initializer is written. */
static struct zt_tensor written(const struct zt_onnx_writer *w, const char *name, struct zt_tensor tensor) {
    int i = zt_map_get(&w->payload_by_name, name, -1);
    if (i >= 0 && w->changes->payloads[i].half)
        tensor.dtype = w->changes->payloads[i].half;
    return tensor;
}

static const void *payload_of(const struct zt_onnx_writer *w, const char *name) {
    int i = zt_map_get(&w->payload_by_name, name, -1);
    return i < 0 ? NULL : w->changes->payloads[i].data;
}

/* ---- external data ---- */

/* Removes the data fields of tensor `message` and points it to `data` in the external file. */
static void move_outside(struct zt_onnx_writer *w, int message, const void *data, uint64_t bytes) {
    static const uint32_t gone[] = { ZT_TENSOR_EXTERNAL_DATA, ZT_TENSOR_DATA_LOCATION };
    const struct zt_onnx_message *m = &w->scan->messages.at[message];
    struct zt_wire_field field;
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        for (size_t at = 0; zt_onnx_find_field(w->scan, message, gone[i], &at, &field);)
            zt_onnx_edit_remove(&w->edits, message, field.at, field.end);
    for (int i = 0; i < m->payload_count; i++) {
        const struct zt_onnx_piece *p = &w->scan->pieces.at[m->first_payload + i];
        zt_onnx_edit_remove(&w->edits, message, p->at, p->end);
    }
    struct zt_text fields = { 0 };
    zt_onnx_put_outside(w, &fields, data, bytes);
    zt_onnx_insert(w, message, m->end, m->end, &fields);
}

/* The stored tensor of a message, NULL where it is none of the main graph's. */
static const struct zt_onnx_stored **stored_by_message(struct zt_onnx_writer *w) {
    const struct zt_onnx_stored **of = ZT_NEW_N(w->arena, const struct zt_onnx_stored *, w->scan->messages.count);
    for (int i = 0; i < w->file->stored.count; i++)
        if (w->file->stored.at[i].message >= 0)
            of[w->file->stored.at[i].message] = &w->file->stored.at[i];
    return of;
}

static bool move_one(struct zt_onnx_writer *w, int message, const struct zt_onnx_stored *stored) {
    const void *data = stored ? payload_of(w, stored->name) : NULL;
    if (data || !zt_onnx_is_external(w->scan, message)) {
        const struct zt_tensor tensor = written(w, stored->name, stored->tensor);
        move_outside(w, message, data ? data : zt_onnx_raw(w->arena, &stored->tensor, &(size_t){ 0 }),
                     zt_onnx_bytes_of(&tensor));
        return true;
    }
    struct zt_onnx_region region;
    const char *name = zt_onnx_text_field(w, message, ZT_TENSOR_NAME, 0);
    int first = w->err->count;
    const struct zt_onnx_message *m = &w->scan->messages.at[message];
    if (!zt_onnx_external(w->file, message, m->sized ? m->bytes : UINT64_MAX, &region, w->err))
        return zt_err_within(w->err, first, "tensor \"%s\"", name ? name : "");
    if (!region.data)
        return zt_fail(w->err, ZT_EXIT_MODEL, "tensor \"%s\": its external data are not there", name ? name : "");
    move_outside(w, message, region.data, region.bytes);
    return true;
}

static bool goes_outside(const struct zt_onnx_writer *w, int message, const struct zt_onnx_stored *stored) {
    return zt_onnx_is_external(w->scan, message) || (w->too_large && stored && stored->tensor.data &&
                                                     zt_onnx_bytes_of(&stored->tensor) >= ZT_EXTERNAL_FROM_BYTES);
}

/* ---- payloads ---- */

/* New contents in the form that the file has. */
static void replace_payload(struct zt_onnx_writer *w, const struct zt_onnx_stored *stored, const void *data) {
    const struct zt_onnx_message *m = &w->scan->messages.at[stored->message];
    const struct zt_onnx_piece *p = m->payload_count ? &w->scan->pieces.at[m->first_payload] : NULL;
    size_t bytes = (size_t)zt_onnx_bytes_of(&stored->tensor);
    if (!p)
        return; /* no elements */
    if (m->payload_count == 1 && !p->unpacked && p->end - p->data == bytes &&
        (p->field == ZT_TENSOR_RAW_DATA || p->field == ZT_TENSOR_FLOAT_DATA || p->field == ZT_TENSOR_DOUBLE_DATA)) {
        zt_onnx_edit_replace(&w->edits, stored->message, p->data, p->end, data, bytes);
        return;
    }
    const unsigned char *typed =
        zt_onnx_encode(w->arena, stored->tensor.dtype, data, zt_shape_count(&stored->tensor.shape), &bytes);
    struct zt_text head = { 0 };
    zt_onnx_put_number(&head, p->field, ZT_WIRE_BYTES, bytes);
    zt_onnx_insert(w, stored->message, p->at, p->end, &head);
    zt_onnx_edit_replace(&w->edits, stored->message, p->end, p->end, typed, bytes);
    for (int i = 1; i < m->payload_count; i++)
        zt_onnx_edit_remove(&w->edits, stored->message, p[i].at, p[i].end);
}

/* Contents of another type: raw data in place of what was there. */
static void replace_narrowed(struct zt_onnx_writer *w, int message, const struct zt_tensor *tensor, const void *data) {
    const struct zt_onnx_message *m = &w->scan->messages.at[message];
    const size_t bytes = (size_t)zt_onnx_bytes_of(tensor);
    struct zt_text head = { 0 };
    for (int i = 0; i < m->payload_count; i++) {
        const struct zt_onnx_piece *p = &w->scan->pieces.at[m->first_payload + i];
        zt_onnx_edit_remove(&w->edits, message, p->at, p->end);
    }
    zt_onnx_put_number(&head, ZT_TENSOR_RAW_DATA, ZT_WIRE_BYTES, bytes);
    zt_onnx_insert(w, message, m->end, m->end, &head);
    zt_onnx_edit_replace(&w->edits, message, m->end, m->end, data, bytes);
}

static void retype(struct zt_onnx_writer *w, int message, uint32_t field_number, enum zt_dtype dtype) {
    struct zt_wire_field field;
    struct zt_text type = { 0 };
    size_t at = 0;
    if (!zt_onnx_find_field(w->scan, message, field_number, &at, &field))
        return;
    zt_onnx_put_number(&type, field_number, ZT_WIRE_VARINT, (uint64_t)dtype);
    zt_onnx_insert(w, message, field.at, field.end, &type);
}

static bool edit_tensors(struct zt_onnx_writer *w) {
    const struct zt_onnx_stored **stored = stored_by_message(w);
    bool ok = true;
    for (int i = 0; i < w->scan->messages.count; i++) {
        if (w->scan->messages.at[i].type != &onnx__tensor_proto__descriptor)
            continue;
        const void *data = stored[i] ? payload_of(w, stored[i]->name) : NULL;
        const struct zt_tensor tensor = data ? written(w, stored[i]->name, stored[i]->tensor) : (struct zt_tensor){ 0 };
        const bool narrowed = data && tensor.dtype != stored[i]->tensor.dtype;
        if (narrowed)
            retype(w, i, ZT_TENSOR_DATA_TYPE, tensor.dtype);
        if (goes_outside(w, i, stored[i]))
            ok &= move_one(w, i, stored[i]);
        else if (narrowed)
            replace_narrowed(w, i, &tensor, data);
        else if (data)
            replace_payload(w, stored[i], data);
    }
    return ok;
}

/* ---- aliases ---- */

/* The initializer at the end of a chain of aliases, NULL where there is none. */
static const struct zt_onnx_stored *source_of(const struct zt_onnx_writer *w, const char *name) {
    for (int hops = 0; name && hops <= w->changes->alias_count; hops++) {
        int node = zt_map_get(&w->alias_by_name, name, -1);
        if (node < 0)
            return find_stored(w, name);
        name = zt_onnx_text_field(w, node, ZT_NODE_INPUT, 0);
    }
    return NULL;
}

static void find_aliases(struct zt_onnx_writer *w) {
    struct zt_map wanted = { 0 };
    for (int i = 0; i < w->changes->alias_count; i++)
        zt_map_put(&wanted, w->changes->aliases[i], i);
    for (int i = 0; i < w->nodes.count; i++) {
        const char *output = zt_onnx_text_field(w, w->nodes.at[i], ZT_NODE_OUTPUT, 0);
        if (output && zt_map_get(&wanted, output, -1) >= 0)
            zt_map_put(&w->alias_by_name, output, w->nodes.at[i]);
    }
    zt_map_finish(&wanted);
}

static bool edit_aliases(struct zt_onnx_writer *w) {
    for (int i = 0; i < w->changes->alias_count; i++) {
        const char *name = w->changes->aliases[i];
        const struct zt_onnx_stored *source = source_of(w, name);
        const void *data = payload_of(w, name);
        int node = zt_map_get(&w->alias_by_name, name, -1);
        if (!source || node < 0 || w->last_initializer < 0)
            return zt_fail(w->err, ZT_EXIT_MODEL, "tensor \"%s\" is no copy of an initializer", name);
        if (!data)
            data = zt_onnx_raw(w->arena, &source->tensor, &(size_t){ 0 });
        if (!data && zt_onnx_bytes_of(&source->tensor))
            return zt_fail(w->err, ZT_EXIT_MODEL, "tensor \"%s\" has no contents", name);
        const struct zt_tensor tensor = written(w, name, source->tensor);
        zt_onnx_edit_drop(&w->edits, node);
        zt_onnx_insert_initializer(w, name, NULL, &tensor, data);
    }
    return true;
}

/* ---- nodes that go back to inference form ---- */

/* Names that some node, in the graph or inside another, reads, and those of graph outputs. */
static void names_read(const struct zt_onnx_writer *w, struct zt_map *read) {
    for (int i = 0; i < w->scan->messages.count; i++) {
        const struct zt_onnx_message *m = &w->scan->messages.at[i];
        struct zt_wire_field field;
        if (m->type == &onnx__node_proto__descriptor)
            for (size_t at = 0; zt_onnx_find_field(w->scan, i, ZT_NODE_INPUT, &at, &field);)
                zt_map_put(read, zt_onnx_text_of(w, &field), 1);
        else if (m->type == &onnx__value_info_proto__descriptor && m->field == ZT_GRAPH_OUTPUT)
            for (size_t at = 0; zt_onnx_find_field(w->scan, i, ZT_VALUE_INFO_NAME, &at, &field);)
                zt_map_put(read, zt_onnx_text_of(w, &field), 1);
    }
}

static bool has_read_outputs(const struct zt_onnx_writer *w, int node, const struct zt_map *read) {
    for (int i = 1; zt_onnx_text_field(w, node, ZT_NODE_OUTPUT, i); i++)
        if (zt_map_get(read, zt_onnx_text_field(w, node, ZT_NODE_OUTPUT, i), 0))
            return true;
    return false;
}

static void drop_outputs(struct zt_onnx_writer *w, int node, struct zt_map *dropped) {
    struct zt_wire_field field;
    int outputs = 0;
    for (size_t at = 0; zt_onnx_find_field(w->scan, node, ZT_NODE_OUTPUT, &at, &field);)
        if (outputs++ > 0) {
            zt_onnx_edit_remove(&w->edits, node, field.at, field.end);
            zt_map_put(dropped, zt_onnx_text_of(w, &field), 1);
        }
}

static void drop_input(struct zt_onnx_writer *w, int node, int input) {
    struct zt_wire_field field;
    int inputs = 0;
    for (size_t at = 0; zt_onnx_find_field(w->scan, node, ZT_NODE_INPUT, &at, &field);)
        if (inputs++ == input)
            zt_onnx_edit_remove(&w->edits, node, field.at, field.end);
}

static void drop_attribute(struct zt_onnx_writer *w, int node) {
    for (int i = node + 1; i < w->scan->messages.count && w->scan->messages.at[i].end <= w->scan->messages.at[node].end;
         i++)
        if (w->scan->messages.at[i].parent == node && w->scan->messages.at[i].field == ZT_NODE_ATTRIBUTE) {
            const char *name = zt_onnx_text_field(w, i, ZT_ATTRIBUTE_NAME, 0);
            if (name && strcmp(name, "training_mode") == 0)
                zt_onnx_edit_drop(&w->edits, i);
        }
}

static void edit_inference_node(struct zt_onnx_writer *w, int node, int input, const struct zt_map *read,
                                struct zt_map *dropped) {
    const bool keeps = has_read_outputs(w, node, read);
    if (!keeps)
        drop_outputs(w, node, dropped);
    if (input)
        drop_input(w, node, input);
    else if (!keeps)
        drop_attribute(w, node);
}

static bool edit_inference_nodes(struct zt_onnx_writer *w) {
    struct zt_map read = { 0 }, dropped = { 0 };
    if (w->changes->inference_node_count)
        names_read(w, &read);
    for (int i = 0; i < w->changes->inference_node_count; i++) {
        const struct zt_onnx_inference *n = &w->changes->inference_nodes[i];
        if (n->node >= 0 && n->node < w->nodes.count)
            edit_inference_node(w, w->nodes.at[n->node], n->input, &read, &dropped);
    }
    for (int i = 0; dropped.count && i < w->scan->messages.count; i++) {
        const struct zt_onnx_message *m = &w->scan->messages.at[i];
        const char *name = m->parent == w->graph && m->field == ZT_GRAPH_VALUE_INFO
                               ? zt_onnx_text_field(w, i, ZT_VALUE_INFO_NAME, 0)
                               : NULL;
        if (name && name[0] && zt_map_get(&dropped, name, 0))
            zt_onnx_edit_drop(&w->edits, i);
    }
    zt_map_finish(&read);
    zt_map_finish(&dropped);
    return true;
}

/* ---- whole ---- */

static bool check_payloads(const struct zt_onnx_writer *w) {
    for (int i = 0; i < w->changes->payload_count; i++) {
        const char *name = w->changes->payloads[i].name;
        const struct zt_onnx_stored *stored = source_of(w, name);
        if (!stored || !zt_dtype_bytes(stored->tensor.dtype))
            return zt_fail(w->err, ZT_EXIT_MODEL, "tensor \"%s\" is no initializer that can be written", name);
    }
    return true;
}

static void forget_edits(struct zt_onnx_writer *w) {
    zt_onnx_edit_finish(&w->edits);
    zt_vec_finish(&w->stretches);
    w->data_size = 0;
}

static bool make_edits(struct zt_onnx_writer *w) {
    w->edits.scan = w->scan;
    return edit_tensors(w) && edit_aliases(w) && zt_onnx_edit_owned(w) && zt_onnx_edit_halves(w) &&
           zt_onnx_edit_pairs(w) && edit_inference_nodes(w);
}

static void write_stretches(const struct zt_onnx_writer *w, FILE *to) {
    static const char zeros[ZT_EXTERNAL_ALIGN];
    uint64_t at = 0;
    for (int i = 0; i < w->stretches.count; i++) {
        const struct zt_onnx_stretch *s = &w->stretches.at[i];
        fwrite(zeros, 1, (size_t)(s->offset - at), to);
        if (s->bytes)
            fwrite(s->data, 1, (size_t)s->bytes, to);
        at = s->offset + s->bytes;
    }
}

/* The external file first: a model that is there must find its data. */
static bool write_files(struct zt_onnx_writer *w, const char *path) {
    struct zt_file_out model, data = { 0 };
    char *data_path = zt_arena_printf(w->arena, "%s.data", path);
    bool outside = w->stretches.count > 0;
    if (!zt_file_out_open(&model, path, w->err))
        return false;
    zt_onnx_edit_write(&w->edits, model.stream);
    if (outside && !zt_file_out_open(&data, data_path, w->err)) {
        zt_file_out_abort(&model);
        return false;
    }
    if (outside)
        write_stretches(w, data.stream);
    if (outside && !zt_file_out_commit(&data, w->err)) {
        zt_file_out_abort(&model);
        return false;
    }
    if (zt_file_out_commit(&model, w->err))
        return true;
    if (outside)
        unlink(data_path);
    return false;
}

bool zt_onnx_write(const struct zt_onnx *model, const char *path, const struct zt_onnx_changes *changes,
                   struct zt_err *err) {
    struct zt_onnx_writer w = { .file = model->file, .scan = &model->file->scan, .changes = changes, .err = err };
    int first = err->count;
    w.arena = zt_arena_create();
    w.data_name = zt_arena_printf(w.arena, "%s.data", zt_path_name(path));
    find_messages(&w);
    for (int i = 0; i < changes->payload_count; i++)
        zt_map_put(&w.payload_by_name, changes->payloads[i].name, i);
    find_aliases(&w);
    bool ok = check_payloads(&w) && make_edits(&w);
    if (ok && zt_onnx_edit_size(&w.edits) > MODEL_LIMIT) {
        forget_edits(&w);
        w.too_large = true;
        ok = make_edits(&w);
    }
    if (!ok)
        zt_err_within(err, first, "%s", model->path);
    ok = ok && write_files(&w, path);
    forget_edits(&w);
    zt_vec_finish(&w.nodes);
    zt_map_finish(&w.payload_by_name);
    zt_map_finish(&w.alias_by_name);
    zt_arena_destroy(w.arena);
    return ok;
}
