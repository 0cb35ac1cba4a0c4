#include "graph/onnx/scan.h"

#include "graph/onnx/edit.h"

#include "onnx.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the wire format ---- */

bool zt_wire_varint(const unsigned char *file, size_t *at, size_t end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 70 && *at < end; shift += 7) {
        unsigned char byte = file[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

const char *zt_wire_next(const unsigned char *file, size_t at, size_t end, struct zt_wire_field *field) {
    uint64_t tag;
    *field = (struct zt_wire_field){ .at = at, .data = at };
    if (!zt_wire_varint(file, &field->data, end, &tag))
        return "a broken field tag";
    if (tag >> 3 == 0 || tag >> 32)
        return "a field number that cannot be";
    field->number = (uint32_t)(tag >> 3);
    field->wire = (enum zt_wire_type)(tag & 7);
    field->length_at = field->data;
    size_t left = end - field->data;
    switch (field->wire) {
    case ZT_WIRE_VARINT:
        left = field->data;
        if (!zt_wire_varint(file, &left, end, &field->value))
            return "a broken number";
        field->end = left;
        return NULL;
    case ZT_WIRE_FIXED64:
    case ZT_WIRE_FIXED32:
        field->value = field->wire == ZT_WIRE_FIXED64 ? 8 : 4;
        break;
    case ZT_WIRE_BYTES:
        if (!zt_wire_varint(file, &field->data, end, &field->value))
            return "a broken length";
        left = end - field->data;
        break;
    default:
        return "a wire type that ONNX does not have";
    }
    if (field->value > left)
        return "a length that runs past the end";
    field->end = field->data + (size_t)field->value;
    return NULL;
}

int zt_onnx_child(const struct zt_onnx_scan *scan, int parent, uint32_t field) {
    for (int i = parent + 1; i < scan->messages.count && scan->messages.at[i].at <= scan->messages.at[parent].end; i++)
        if (scan->messages.at[i].parent == parent && scan->messages.at[i].field == field)
            return i;
    return -1;
}

bool zt_onnx_find_field(const struct zt_onnx_scan *scan, int index, uint32_t number, size_t *at,
                        struct zt_wire_field *field) {
    const struct zt_onnx_message *m = &scan->messages.at[index];
    for (size_t next = *at ? *at : m->at; next < m->end; next = field->end) {
        zt_wire_next(scan->file, next, m->end, field); /* the scan has checked it */
        *at = field->end;
        if (field->number == number)
            return true;
    }
    return false;
}

/* ---- the scan ---- */

/* State of the walk for a message that contains its position. */
struct frame {
    const ProtobufCMessageDescriptor *type;
    size_t end;
    int message; /* index of the innermost recorded message */
    uint64_t seen;
    int ordinal[32]; /* by index of the field in `type` */
};

struct walk {
    struct zt_onnx_scan *scan;
    struct frame stack[ZT_ONNX_DEPTH];
    int depth;
    enum zt_exit code;
    struct zt_err *err;
};

enum {
    ONEOF_BIT = 63,
    FIELD_COST = 48,   /* protobuf-c's own notes on a field while it unpacks */
    GRAPH_COST = 8192, /* what a graph without anything in it takes once read */
    OBJECT_COST = 48,  /* an allocation: its header, rounding, and the pointer to it */
};

/* Everything that can have a tensor inside, so that lengths can be mended when a payload goes, and the messages that
 * the writer may drop. */
static bool is_recorded(const ProtobufCMessageDescriptor *type) {
    static const ProtobufCMessageDescriptor *const recorded[] = {
        &onnx__model_proto__descriptor,         &onnx__graph_proto__descriptor,
        &onnx__node_proto__descriptor,          &onnx__attribute_proto__descriptor,
        &onnx__tensor_proto__descriptor,        &onnx__value_info_proto__descriptor,
        &onnx__function_proto__descriptor,      &onnx__sparse_tensor_proto__descriptor,
        &onnx__training_info_proto__descriptor, &onnx__sequence_proto__descriptor,
        &onnx__map_proto__descriptor,           &onnx__optional_proto__descriptor,
    };
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        if (recorded[i] == type)
            return true;
    return false;
}

static bool is_payload(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field) {
    return type == &onnx__tensor_proto__descriptor &&
           (field->id == ZT_TENSOR_RAW_DATA || field->flags & PROTOBUF_C_FIELD_FLAG_PACKED);
}

static enum zt_wire_type wire_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_FLOAT:
        return ZT_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_DOUBLE:
        return ZT_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return ZT_WIRE_BYTES;
    default:
        return ZT_WIRE_VARINT;
    }
}

static bool bad_wire(struct walk *w, const struct zt_wire_field *at, const char *why) {
    const struct frame *f = &w->stack[w->depth];
    const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field(f->type, at->number);
    const char *name = known ? known->name : "an unknown field";
    if (w->depth == 0 && f->seen && at->value > f->end - at->data && at->wire == ZT_WIRE_BYTES && known)
        return zt_fail(w->err, w->code,
                       "is truncated: %s should have %" PRIu64
                       " bytes, the file ends after %zu (it does not parse as an "
                       "ONNX protobuf)",
                       name, at->value, f->end - at->data);
    if (w->depth == 0 && f->seen && at->end == 0 && w->scan->file[f->end - 1] & 0x80) /* inside a varint */
        return zt_fail(w->err, w->code, "is truncated: it ends inside %s (it does not parse as an ONNX protobuf)",
                       name);
    return zt_fail(w->err, w->code, "does not parse as an ONNX protobuf: byte %zu has %s (%s of %s)", at->at, why, name,
                   f->type->short_name);
}

/* Returns the bytes that unpacking this field takes, without the messages in it. */
static uint64_t field_memory(const ProtobufCFieldDescriptor *field, const struct zt_wire_field *at) {
    uint64_t bytes = at->wire == ZT_WIRE_BYTES ? at->end - at->data : 0;
    if (!field || wire_of(field->type) == ZT_WIRE_BYTES)
        return FIELD_COST + OBJECT_COST + (field && field->type == PROTOBUF_C_TYPE_MESSAGE ? 0 : bytes);
    if (at->wire == ZT_WIRE_BYTES) /* packed: a varint of one byte becomes eight */
        return FIELD_COST + OBJECT_COST + (wire_of(field->type) == ZT_WIRE_VARINT ? 8 * bytes : bytes);
    return FIELD_COST + 8;
}

static bool spend(struct walk *w, uint64_t bytes) {
    w->scan->memory += bytes;
    if (w->scan->memory <= ZT_ONNX_MEMORY)
        return true;
    return zt_fail(w->err, w->code,
                   "is too large to unpack: its structure, weights apart, takes more than %" PRIu64 " MB",
                   ZT_ONNX_MEMORY / 1000000);
}

/* A field that may stand once. Writers never repeat one, and merging the two, as the format would have it, is where a
 * small file makes much work. */
static bool stands_once(struct walk *w, const ProtobufCFieldDescriptor *field, const struct zt_wire_field *at) {
    struct frame *f = &w->stack[w->depth];
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return true;
    bool oneof = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    uint64_t bit = UINT64_C(1) << (oneof ? ONEOF_BIT : field - f->type->fields);
    if (f->seen & bit)
        return bad_wire(w, at, "a field for the second time");
    f->seen |= bit;
    return true;
}

static bool enter(struct walk *w, const ProtobufCFieldDescriptor *field, const struct zt_wire_field *at) {
    struct zt_onnx_scan *s = w->scan;
    const struct frame *up = &w->stack[w->depth];
    int ordinal = w->stack[w->depth].ordinal[field - up->type->fields]++;
    if (w->depth + 1 == ZT_ONNX_DEPTH)
        return zt_fail(w->err, w->code, "is nested too deep: byte %zu is inside %d messages, the limit", at->at,
                       ZT_ONNX_DEPTH);
    const ProtobufCMessageDescriptor *type = field->descriptor;
    struct frame *f = &w->stack[++w->depth];
    *f = (struct frame){ .type = type, .end = at->end, .message = up->message };
    if (is_recorded(type)) {
        f->message = s->messages.count;
        zt_vec_push(&s->messages, (struct zt_onnx_message){ type, up->message, field->id, ordinal, at->at,
                                                            at->length_at, at->data, at->end, s->pieces.count, 0 });
    }
    bool graph = type == &onnx__graph_proto__descriptor || type == &onnx__function_proto__descriptor;
    return spend(w, type->sizeof_message + (is_recorded(type) ? sizeof(struct zt_onnx_message) : 0) +
                        (graph ? GRAPH_COST : 0));
}

static bool add_piece(struct walk *w, const ProtobufCFieldDescriptor *field, const struct zt_wire_field *at) {
    struct zt_onnx_scan *s = w->scan;
    struct zt_onnx_message *m = &s->messages.at[w->stack[w->depth].message];
    bool unpacked = at->wire != ZT_WIRE_BYTES;
    struct zt_onnx_piece *last = m->payload_count ? &s->pieces.at[s->pieces.count - 1] : NULL;
    if (unpacked && last && last->unpacked && last->field == field->id && last->end == at->at) {
        last->end = at->end;
        return true;
    }
    m->payload_count++;
    zt_vec_push(&s->pieces,
                (struct zt_onnx_piece){ field->id, unpacked, at->at, unpacked ? at->at : at->data, at->end });
    return spend(w, 2 * sizeof *last + sizeof(struct zt_onnx_edit));
}

static bool scan_field(struct walk *w, const struct zt_wire_field *at) {
    const struct frame *f = &w->stack[w->depth];
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(f->type, at->number);
    if (!field)
        return spend(w, field_memory(NULL, at));
    bool repeated_number = field->label == PROTOBUF_C_LABEL_REPEATED && wire_of(field->type) != ZT_WIRE_BYTES;
    if (at->wire != wire_of(field->type) && !(repeated_number && at->wire == ZT_WIRE_BYTES))
        return bad_wire(w, at, "a field of another type than ONNX gives it");
    if (!stands_once(w, field, at))
        return false;
    if (is_payload(f->type, field))
        return add_piece(w, field, at);
    if (field->type == PROTOBUF_C_TYPE_STRING && memchr(w->scan->file + at->data, 0, at->end - at->data))
        return bad_wire(w, at, "a zero byte in a text");
    return spend(w, field_memory(field, at)) && (field->type != PROTOBUF_C_TYPE_MESSAGE || enter(w, field, at));
}

bool zt_onnx_scan(struct zt_onnx_scan *scan, const unsigned char *file, size_t size,
                  const ProtobufCMessageDescriptor *root, enum zt_exit code, struct zt_err *err) {
    *scan = (struct zt_onnx_scan){ .file = file, .size = size };
    if (size == 0)
        return zt_fail(err, code, "is empty: it does not parse as an ONNX protobuf");
    struct walk *w = zt_calloc(1, sizeof *w);
    *w = (struct walk){ .scan = scan, .stack[0] = { .type = root, .end = size }, .code = code, .err = err };
    zt_vec_push(&scan->messages, (struct zt_onnx_message){ .type = root, .parent = -1, .end = size });
    bool ok = true;
    for (size_t at = 0; ok && w->depth >= 0;) {
        const struct frame *f = &w->stack[w->depth];
        if (at == f->end) {
            w->depth--;
            continue;
        }
        struct zt_wire_field field;
        int depth = w->depth;
        const char *why = zt_wire_next(file, at, f->end, &field);
        ok = why ? bad_wire(w, &field, why) : scan_field(w, &field);
        at = ok && w->depth > depth ? field.data : field.end;
    }
    free(w);
    return ok;
}

void zt_onnx_scan_finish(struct zt_onnx_scan *scan) {
    zt_vec_finish(&scan->messages);
    zt_vec_finish(&scan->pieces);
}

/* ---- unpacking ---- */

/* protobuf-c's allocator with a limit, the second line of defence behind the scan's estimate. */
static void *limited_alloc(void *left, size_t bytes) {
    uint64_t *room = left;
    if (bytes > *room)
        return NULL;
    *room -= bytes;
    return zt_malloc(bytes); /* a model that does not parse is not one that no memory was left for */
}

static void limited_free(void *left, void *block) {
    (void)left;
    free(block);
}

ProtobufCMessage *zt_onnx_unpack(const struct zt_onnx_scan *scan, enum zt_exit code, struct zt_err *err) {
    struct zt_onnx_edits edits = { .scan = scan };
    for (int m = 0; m < scan->messages.count; m++)
        for (int p = 0; p < scan->messages.at[m].payload_count; p++) {
            const struct zt_onnx_piece *piece = &scan->pieces.at[scan->messages.at[m].first_payload + p];
            zt_onnx_edit_remove(&edits, m, piece->at, piece->end);
        }
    char *bytes = NULL;
    size_t count = 0;
    FILE *to = open_memstream(&bytes, &count);
    if (to)
        zt_onnx_edit_write(&edits, to);
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    zt_onnx_edit_finish(&edits);
    uint64_t room = 2 * ZT_ONNX_MEMORY;
    ProtobufCAllocator limited = { limited_alloc, limited_free, &room };
    ProtobufCMessage *message = NULL;
    if (ok)
        message = protobuf_c_message_unpack(scan->messages.at[0].type, &limited, count, (const uint8_t *)bytes);
    free(bytes);
    if (!message)
        zt_fail(err, code, "does not parse as an ONNX protobuf");
    return message;
}
