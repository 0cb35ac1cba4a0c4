/* Files of one value, as the standard's tests have them: a TensorProto, a SequenceProto or an OptionalProto. */
#include "graph/onnx/file.h"
#include "graph/onnx/varint.h"

#include <stdlib.h>
#include <string.h>

/* Fields of SequenceProto and OptionalProto, and their element types. */
enum { FIELD_NAME = 1, FIELD_ELEM_TYPE = 2, FIELD_TENSOR = 3, FIELD_SEQUENCE = 5 };
enum { ELEM_NONE = 0, ELEM_TENSOR = 1, ELEM_SEQUENCE = 3 };

/* ---- reading ---- */

/* The message of the file, unpacked, and where its tensors go. */
struct reading {
    struct zt_onnx_file *file;
    struct zt_onnx_list *list; /* NULL: a single tensor */
    struct zt_tensor *tensor;
    const char *name;
};

/* Reads the tensors of message `parent` in field `field`, in order. */
static bool read_tensors(struct reading *r, int parent, uint32_t field, Onnx__TensorProto *const *protos,
                         struct zt_err *err) {
    const struct zt_onnx_scan *scan = &r->file->scan;
    for (int m = 0; m < scan->messages.count; m++) {
        const struct zt_onnx_message *at = &scan->messages.at[m];
        if (at->parent != parent || (parent >= 0 && at->field != field))
            continue;
        const Onnx__TensorProto *t = protos[at->ordinal];
        const char *name = r->list ? zt_arena_printf(r->file->arena, "%d", at->ordinal) : r->name;
        const char *where = zt_arena_printf(r->file->arena, "tensor \"%s\"", name);
        struct zt_tensor *tensor = &r->tensor[at->ordinal];
        if (!zt_onnx_tensor(r->file, m, t, where, tensor, err))
            return false;
        if (!tensor->data && zt_shape_count(&tensor->shape) != 0)
            return zt_fail(err, r->file->code, "%s: type %s is not supported", where, zt_dtype_name(tensor->dtype));
    }
    return true;
}

static bool read_single(struct reading *r, const ProtobufCMessage *message, struct zt_err *err) {
    Onnx__TensorProto *t = (Onnx__TensorProto *)message;
    r->name = zt_arena_strdup(r->file->arena, t->name ? t->name : "");
    return read_tensors(r, -1, 0, &t, err);
}

static bool read_sequence(struct reading *r, int message, const Onnx__SequenceProto *p, struct zt_err *err) {
    const size_t others = p->n_sparse_tensor_values + p->n_sequence_values + p->n_map_values + p->n_optional_values;
    if (others || (p->elem_type != ELEM_NONE && p->elem_type != ELEM_TENSOR))
        return zt_fail(err, r->file->code, "holds a sequence of other elements than tensors, which is not supported");
    r->list->tensor_count = (int)p->n_tensor_values;
    r->list->tensor = r->tensor = ZT_NEW_N(r->file->arena, struct zt_tensor, p->n_tensor_values + 1);
    return read_tensors(r, message, FIELD_TENSOR, p->tensor_values, err);
}

/* The message of the optional's sequence. */
static int sequence_message(const struct reading *r) {
    const struct zt_onnx_scan *scan = &r->file->scan;
    for (int m = 1; m < scan->messages.count; m++)
        if (scan->messages.at[m].parent == 0 && scan->messages.at[m].field == FIELD_SEQUENCE)
            return m;
    return -1;
}

static bool read_optional(struct reading *r, Onnx__OptionalProto *p, struct zt_err *err) {
    const bool tensor = p->tensor_value, sequence = p->sequence_value;
    const int wanted = r->list->of_sequence ? ELEM_SEQUENCE : ELEM_TENSOR;
    r->list->empty = p->elem_type == ELEM_NONE;
    if (p->sparse_tensor_value || p->map_value || p->optional_value ||
        (p->elem_type != wanted && p->elem_type != ELEM_NONE))
        return zt_fail(err, r->file->code, "holds an optional of element type %d, wants %d (a %s) or 0 (none)",
                       (int)p->elem_type, wanted, r->list->of_sequence ? "sequence" : "tensor");
    if (tensor != (p->elem_type == ELEM_TENSOR) || sequence != (p->elem_type == ELEM_SEQUENCE))
        return zt_fail(err, r->file->code, "holds an optional of element type %d with another element or none",
                       (int)p->elem_type);
    if (sequence)
        return read_sequence(r, sequence_message(r), p->sequence_value, err);
    r->list->tensor_count = tensor;
    r->list->tensor = r->tensor = ZT_NEW(r->file->arena, struct zt_tensor);
    return !tensor || read_tensors(r, 0, FIELD_TENSOR, &p->tensor_value, err);
}

static bool read_message(struct reading *r, struct zt_err *err) {
    struct zt_onnx_file *file = r->file;
    const ProtobufCMessageDescriptor *type = !r->list                       ? &onnx__tensor_proto__descriptor
                                             : r->list->kind == ZT_SEQUENCE ? &onnx__sequence_proto__descriptor
                                                                            : &onnx__optional_proto__descriptor;
    if (r->list && file->map.size == 0) { /* an optional without element and name has no bytes */
        r->list->empty = r->list->kind == ZT_OPTIONAL;
        return true;
    }
    if (!zt_onnx_scan(&file->scan, file->map.data, file->map.size, type, file->code, err))
        return false;
    ProtobufCMessage *message = zt_onnx_unpack(&file->scan, file->code, err);
    if (!message)
        return false;
    const bool ok = !r->list                       ? read_single(r, message, err)
                    : r->list->kind == ZT_SEQUENCE ? read_sequence(r, 0, (Onnx__SequenceProto *)message, err)
                                                   : read_optional(r, (Onnx__OptionalProto *)message, err);
    protobuf_c_message_free_unpacked(message, NULL);
    return ok;
}

/* The mapping ends with the call, so contents are copied. */
static void keep_contents(const struct reading *r, int count) {
    for (int i = 0; i < count; i++) {
        struct zt_tensor *t = &r->tensor[i];
        if (t->data)
            t->data =
                zt_arena_copy(r->file->arena, t->data, (size_t)zt_shape_count(&t->shape) * zt_dtype_bytes(t->dtype));
    }
}

static bool read_file(const char *path, struct reading *r, struct zt_err *err) {
    struct zt_onnx_file *file = r->file;
    int first = err->count;
    file->folder = zt_path_folder(path);
    bool ok = zt_file_map(&file->map, path, file->code, err);
    if (ok && !read_message(r, err))
        ok = zt_err_within(err, first, "%s", path);
    if (ok)
        keep_contents(r, r->list ? r->list->tensor_count : 1);
    for (int i = 0; i < file->externals.count; i++)
        ok = zt_file_close(&file->externals.at[i].map, ok, err);
    zt_vec_finish(&file->externals);
    zt_map_finish(&file->external_by_location);
    zt_onnx_scan_finish(&file->scan);
    ok = zt_file_close(&file->map, ok, err);
    free(file->folder);
    return ok;
}

bool zt_onnx_read_tensor(const char *path, struct zt_arena *arena, struct zt_tensor *tensor, const char **name,
                         enum zt_exit code, struct zt_err *err) {
    struct zt_onnx_file file = { .arena = arena, .code = code };
    struct reading r = { .file = &file, .tensor = tensor, .name = "" };
    const bool ok = read_file(path, &r, err);
    if (name)
        *name = r.name;
    return ok;
}

bool zt_onnx_read_list(const char *path, struct zt_arena *arena, struct zt_onnx_list *list, enum zt_exit code,
                       struct zt_err *err) {
    struct zt_onnx_file file = { .arena = arena, .code = code };
    *list = (struct zt_onnx_list){ .kind = list->kind, .of_sequence = list->of_sequence };
    return read_file(path, &(struct reading){ .file = &file, .list = list }, err);
}

/* ---- writing ---- */

/* Bytes of a message before its contents; no message here has more fields than a TensorProto has dims. */
struct head {
    unsigned char at[(ZT_MAX_RANK + 3) * 20];
    int bytes;
};

/* Tag and length of a field of bytes, or tag and value of a number. */
static void put(struct head *to, uint32_t field, enum zt_wire_type wire, uint64_t value) {
    to->bytes += zt_wire_put_varint(to->at + to->bytes, (uint64_t)field << 3 | (uint64_t)wire);
    to->bytes += zt_wire_put_varint(to->at + to->bytes, value);
}

static size_t contents_bytes(const struct zt_tensor *t) {
    return (size_t)zt_packed_bytes((uint64_t)zt_shape_count(&t->shape), zt_dtype_bits(t->dtype));
}

/* Encodes the fields of a TensorProto around its name: `front` before it, `back` between it and the contents. */
static void tensor_heads(const struct zt_tensor *t, struct head *front, struct head *back) {
    *front = *back = (struct head){ .bytes = 0 };
    for (int i = 0; i < t->shape.rank; i++)
        put(front, ZT_TENSOR_DIMS, ZT_WIRE_VARINT, (uint64_t)t->shape.dim[i]);
    put(front, ZT_TENSOR_DATA_TYPE, ZT_WIRE_VARINT, (uint64_t)t->dtype);
    put(back, ZT_TENSOR_RAW_DATA, ZT_WIRE_BYTES, contents_bytes(t));
}

static void write_head(FILE *to, const struct head *head) {
    fwrite(head->at, 1, (size_t)head->bytes, to);
}

static void write_field(FILE *to, uint32_t field, enum zt_wire_type wire, uint64_t value) {
    struct head head = { .bytes = 0 };
    put(&head, field, wire, value);
    write_head(to, &head);
}

static void write_contents(FILE *to, const struct zt_tensor *t) {
    struct zt_arena *arena = zt_arena_create();
    size_t bytes;
    const void *data = zt_onnx_raw(arena, t, &bytes);
    if (bytes)
        fwrite(data, 1, bytes, to);
    zt_arena_destroy(arena);
}

bool zt_onnx_write_tensor(const char *path, const char *name, const struct zt_tensor *tensor, struct zt_err *err) {
    struct zt_file_out out;
    struct head front, back;
    if (!zt_file_out_open(&out, path, err))
        return false;
    tensor_heads(tensor, &front, &back);
    write_head(out.stream, &front);
    write_field(out.stream, ZT_TENSOR_NAME, ZT_WIRE_BYTES, strlen(name));
    fputs(name, out.stream);
    write_head(out.stream, &back);
    write_contents(out.stream, tensor);
    return zt_file_out_commit(&out, err);
}

/* Bytes of a tensor without name as field FIELD_TENSOR; `to`: writes it. */
static uint64_t put_tensor(FILE *to, const struct zt_tensor *t) {
    struct head front, back, field = { .bytes = 0 };
    tensor_heads(t, &front, &back);
    const uint64_t bytes = (uint64_t)front.bytes + (uint64_t)back.bytes + contents_bytes(t);
    put(&field, FIELD_TENSOR, ZT_WIRE_BYTES, bytes);
    if (to) {
        write_head(to, &field);
        write_head(to, &front);
        write_head(to, &back);
        write_contents(to, t);
    }
    return (uint64_t)field.bytes + bytes;
}

/* The fields of a SequenceProto behind its name, and their bytes. */
static uint64_t put_sequence(FILE *to, const struct zt_onnx_list *list) {
    struct head type = { .bytes = 0 };
    put(&type, FIELD_ELEM_TYPE, ZT_WIRE_VARINT, ELEM_TENSOR);
    if (to)
        write_head(to, &type);
    uint64_t bytes = (uint64_t)type.bytes;
    for (int i = 0; i < list->tensor_count; i++)
        bytes += put_tensor(to, &list->tensor[i]);
    return bytes;
}

static void put_optional(FILE *to, const struct zt_onnx_list *list) {
    write_field(to, FIELD_ELEM_TYPE, ZT_WIRE_VARINT,
                list->empty         ? ELEM_NONE
                : list->of_sequence ? ELEM_SEQUENCE
                                    : ELEM_TENSOR);
    if (list->empty)
        return;
    if (!list->of_sequence) {
        put_tensor(to, &list->tensor[0]);
        return;
    }
    write_field(to, FIELD_SEQUENCE, ZT_WIRE_BYTES, put_sequence(NULL, list));
    put_sequence(to, list);
}

bool zt_onnx_write_list(const char *path, const char *name, const struct zt_onnx_list *list, struct zt_err *err) {
    struct zt_file_out out;
    if (!zt_file_out_open(&out, path, err))
        return false;
    write_field(out.stream, FIELD_NAME, ZT_WIRE_BYTES, strlen(name));
    fputs(name, out.stream);
    if (list->kind == ZT_SEQUENCE)
        put_sequence(out.stream, list);
    else
        put_optional(out.stream, list);
    return zt_file_out_commit(&out, err);
}
