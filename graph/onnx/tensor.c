/* TensorProto to zt_tensor and back: dims, types, and the three places where the elements may stand (raw bytes, a typed
 * field, another file). */
#include "graph/onnx/file.h"
#include "graph/onnx/varint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ONNX stores elements with the low byte first");

enum {
    DATA_TYPES = 29,
    ALIGN_BYTES = 64 << 10, /* payloads up to this size are copied where the file leaves them unaligned */
};

const struct zt_onnx_storage *zt_onnx_storage(int32_t data_type) {
    static const struct zt_onnx_storage rows[DATA_TYPES] = {
        [ZT_FLOAT] = { ZT_TENSOR_FLOAT_DATA, 32, true },
        [ZT_UINT8] = { ZT_TENSOR_INT32_DATA, 8, true },
        [ZT_INT8] = { ZT_TENSOR_INT32_DATA, 8, true },
        [ZT_UINT16] = { ZT_TENSOR_INT32_DATA, 16, true },
        [ZT_INT16] = { ZT_TENSOR_INT32_DATA, 16, true },
        [ZT_INT32] = { ZT_TENSOR_INT32_DATA, 32, true },
        [ZT_INT64] = { ZT_TENSOR_INT64_DATA, 64, true },
        [ZT_STRING] = { 6, 0, false },
        [ZT_BOOL] = { ZT_TENSOR_INT32_DATA, 8, true },
        [ZT_FLOAT16] = { ZT_TENSOR_INT32_DATA, 16, true },
        [ZT_DOUBLE] = { ZT_TENSOR_DOUBLE_DATA, 64, true },
        [ZT_UINT32] = { ZT_TENSOR_UINT64_DATA, 32, true },
        [ZT_UINT64] = { ZT_TENSOR_UINT64_DATA, 64, true },
        [ZT_COMPLEX64] = { ZT_TENSOR_FLOAT_DATA, 64, false },
        [ZT_COMPLEX128] = { ZT_TENSOR_DOUBLE_DATA, 128, false },
        [ZT_BFLOAT16] = { ZT_TENSOR_INT32_DATA, 16, true },
        /* Narrow types, in the order of their numbers: four float8, uint4 and int4, float4e2m1, float8e8m0, uint2 and
           int2, two float6. */
        [17] = { ZT_TENSOR_INT32_DATA, 8, true },
        [18] = { ZT_TENSOR_INT32_DATA, 8, true },
        [19] = { ZT_TENSOR_INT32_DATA, 8, true },
        [20] = { ZT_TENSOR_INT32_DATA, 8, true },
        [21] = { ZT_TENSOR_INT32_DATA, 4, true },
        [22] = { ZT_TENSOR_INT32_DATA, 4, true },
        [23] = { ZT_TENSOR_INT32_DATA, 4, true },
        [24] = { ZT_TENSOR_INT32_DATA, 8, true },
        [25] = { ZT_TENSOR_INT32_DATA, 2, true },
        [26] = { ZT_TENSOR_INT32_DATA, 2, true },
        [27] = { ZT_TENSOR_INT32_DATA, 6, false },
        [28] = { ZT_TENSOR_INT32_DATA, 6, false },
    };
    return data_type > 0 && data_type < DATA_TYPES ? &rows[data_type] : NULL;
}

/* ---- dims ---- */

static bool read_dims(const struct zt_onnx_file *file, const Onnx__TensorProto *t, struct zt_shape *shape,
                      struct zt_err *err) {
    if (t->n_dims > ZT_MAX_RANK)
        return zt_fail(err, file->code, "has %zu dims, at most %d are supported", t->n_dims, ZT_MAX_RANK);
    shape->rank = (int)t->n_dims;
    for (int i = 0; i < shape->rank; i++) {
        shape->dim[i] = t->dims[i];
        if (t->dims[i] < 0)
            return zt_fail(err, file->code, "dim %d is %" PRId64 ", wants 0 or more", i, t->dims[i]);
    }
    return true;
}

/* ---- data in the file ---- */

/* Number of elements in a part of a typed field. The last byte of a varint has a clear top bit; each unpacked element
 * has its own tag. */
static uint64_t count_elements(const unsigned char *file, const struct zt_onnx_piece *piece) {
    uint64_t width = piece->field == ZT_TENSOR_FLOAT_DATA ? 4 : piece->field == ZT_TENSOR_DOUBLE_DATA ? 8 : 0;
    if (width && !piece->unpacked)
        return (piece->end - piece->data) / width;
    uint64_t ends = 0;
    if (piece->unpacked)
        for (size_t at = piece->at; at < piece->end; ends++) {
            struct zt_wire_field f;
            zt_wire_next(file, at, piece->end, &f);
            at = f.end;
        }
    else
        for (size_t at = piece->data; at < piece->end; at++)
            ends += !(file[at] & 0x80);
    return ends;
}

/* Destination of decoded elements; `at` counts them. */
struct decode {
    const unsigned char *file;
    enum zt_dtype dtype;
    unsigned char *to;
    int64_t at;
    bool broken;
};

static void put_number(struct decode *d, uint64_t value) {
    size_t width = zt_dtype_bytes(d->dtype);
    memcpy(d->to + (size_t)d->at++ * width, &value,
           width); /* the low bytes: negative numbers are sign-extended on the wire */
}

static void decode_piece(struct decode *d, const struct zt_onnx_piece *piece) {
    bool fixed = piece->field == ZT_TENSOR_FLOAT_DATA || piece->field == ZT_TENSOR_DOUBLE_DATA;
    uint64_t value;
    if (piece->unpacked) {
        struct zt_wire_field f;
        for (size_t at = piece->at; at < piece->end; at = f.end) {
            zt_wire_next(d->file, at, piece->end, &f);
            value = f.value;
            if (fixed)
                memcpy(&value, d->file + f.data, f.end - f.data);
            put_number(d, value);
        }
    } else if (fixed) {
        size_t width = zt_dtype_bytes(d->dtype), bytes = piece->end - piece->data;
        memcpy(d->to + (size_t)d->at * width, d->file + piece->data, bytes);
        d->at += (int64_t)(bytes / width);
    } else {
        for (size_t at = piece->data; at < piece->end;) {
            d->broken |= !zt_wire_varint(d->file, &at, piece->end, &value);
            if (!d->broken)
                put_number(d, value);
            else
                break;
        }
    }
}

/* A copy of elements of 4 or 2 bits, one a byte. */
static const void *unpack(struct zt_onnx_file *file, const unsigned char *packed, const struct zt_tensor *tensor) {
    const int64_t count = zt_shape_count(&tensor->shape);
    unsigned char *to = zt_arena_alloc(file->arena, (size_t)count);
    zt_dtype_unpack(zt_dtype_bits(tensor->dtype), packed, count, to);
    return to;
}

static bool read_typed(struct zt_onnx_file *file, const struct zt_onnx_message *m, struct zt_tensor *tensor,
                       struct zt_err *err) {
    const struct zt_onnx_piece *pieces = m->payload_count ? &file->scan.pieces.at[m->first_payload] : NULL;
    const int64_t count = zt_shape_count(&tensor->shape);
    const int bits = zt_dtype_bits(tensor->dtype); /* a number of a typed field has a packed byte */
    uint64_t wanted = bits < 8 ? zt_packed_bytes((uint64_t)count, bits) : (uint64_t)count, found = 0;
    for (int i = 0; i < m->payload_count; i++) {
        size_t bytes = pieces[i].end - pieces[i].data;
        size_t width = pieces[i].field == ZT_TENSOR_FLOAT_DATA ? 4 : pieces[i].field == ZT_TENSOR_DOUBLE_DATA ? 8 : 1;
        if (!pieces[i].unpacked && bytes % width)
            return zt_fail(err, file->code, "has data of %zu bytes, not a multiple of %zu", bytes, width);
        found += count_elements(file->scan.file, &pieces[i]);
    }
    if (found != wanted)
        return zt_fail(err, file->code, "has data of %" PRIu64 " %s, dims want %" PRIu64, found,
                       bits < 8 ? "packed bytes" : "elements", wanted);
    struct decode d = { file->scan.file, tensor->dtype,
                        zt_arena_alloc(file->arena, (size_t)wanted * zt_dtype_bytes(tensor->dtype)), 0, false };
    for (int i = 0; i < m->payload_count && !d.broken; i++)
        decode_piece(&d, &pieces[i]);
    if (d.broken || (uint64_t)d.at != wanted)
        return zt_fail(err, file->code, "has an invalid varint in its data");
    tensor->data = bits < 8 ? unpack(file, d.to, tensor) : d.to;
    return true;
}

/* Borrowed from the mapping where that is aligned for the type; small ones, and elements of less than a byte, are
 * copied else. */
static const void *borrow(struct zt_onnx_file *file, const unsigned char *data, uint64_t bytes,
                          const struct zt_tensor *tensor) {
    if (zt_dtype_bits(tensor->dtype) < 8)
        return unpack(file, data, tensor);
    if ((uintptr_t)data % zt_dtype_bytes(tensor->dtype) == 0 || bytes > ALIGN_BYTES)
        return data;
    return zt_arena_copy(file->arena, data, (size_t)bytes);
}

static bool wrong_size(const struct zt_onnx_file *file, const struct zt_tensor *tensor, uint64_t found, uint64_t wanted,
                       struct zt_err *err) {
    char dims[ZT_SHAPE_TEXT];
    return zt_fail(err, file->code, "has data of %" PRIu64 " bytes, %s %s wants %" PRIu64, found,
                   zt_dtype_name(tensor->dtype), zt_shape_text(&tensor->shape, dims), wanted);
}

static bool read_raw(struct zt_onnx_file *file, const struct zt_onnx_piece *piece, uint64_t wanted,
                     struct zt_tensor *tensor, struct zt_err *err) {
    uint64_t found = piece->end - piece->data;
    if (found != wanted)
        return wrong_size(file, tensor, found, wanted, err);
    if (zt_dtype_bytes(tensor->dtype))
        tensor->data = borrow(file, file->scan.file + piece->data, found, tensor);
    return true;
}

static bool read_external(struct zt_onnx_file *file, int message, uint64_t wanted, struct zt_tensor *tensor,
                          struct zt_err *err) {
    struct zt_onnx_region region;
    if (!zt_onnx_external(file, message, wanted, &region, err))
        return false;
    if (zt_dtype_bytes(tensor->dtype) && region.data)
        tensor->data = borrow(file, region.data, region.bytes, tensor);
    return true;
}

/* All pieces must be of the one field that holds this type's elements. */
static bool one_place(const struct zt_onnx_file *file, const struct zt_onnx_message *m, uint32_t typed,
                      struct zt_err *err) {
    const struct zt_onnx_piece *pieces = m->payload_count ? &file->scan.pieces.at[m->first_payload] : NULL;
    for (int i = 0; i < m->payload_count; i++) {
        if (pieces[i].field != pieces[0].field)
            return zt_fail(err, file->code, "has its data in two fields");
        if (pieces[i].field != ZT_TENSOR_RAW_DATA && pieces[i].field != typed)
            return zt_fail(
                err, file->code, "has data in %s, which its type does not use",
                protobuf_c_message_descriptor_get_field(&onnx__tensor_proto__descriptor, pieces[i].field)->name);
    }
    return true;
}

static bool read_contents(struct zt_onnx_file *file, int message, const Onnx__TensorProto *t, struct zt_tensor *tensor,
                          struct zt_err *err) {
    const struct zt_onnx_storage *storage = zt_onnx_storage(t->data_type);
    struct zt_onnx_message *m = &file->scan.messages.at[message];
    if (!storage)
        return zt_fail(err, file->code, "has data type %d, which ONNX does not have", (int)t->data_type);
    tensor->dtype = (enum zt_dtype)t->data_type;
    if (!read_dims(file, t, &tensor->shape, err) || !one_place(file, m, storage->field, err))
        return false;
    int64_t count = zt_shape_count(&tensor->shape);
    if (count > INT64_MAX / 128)
        return zt_fail(err, file->code, "has dims whose product is over 2^56");
    uint64_t wanted = ((uint64_t)count * (uint64_t)storage->bits + 7) / 8; /* float6 too, whose bits cross bytes */
    m->sized = true;
    m->bytes = wanted;
    if (t->segment)
        return zt_fail(err, file->code, "is stored in segments, which are not supported");
    if (tensor->dtype == ZT_STRING)
        return (uint64_t)count == t->n_string_data ||
               zt_fail(err, file->code, "has %zu strings, dims want %" PRId64, t->n_string_data, count);
    if (zt_onnx_is_external(&file->scan, message))
        return m->payload_count ? zt_fail(err, file->code, "has data here and in an external file")
                                : read_external(file, message, wanted, tensor, err);
    if (m->payload_count == 0)
        return count == 0 || wrong_size(file, tensor, 0, wanted, err);
    if (file->scan.pieces.at[m->first_payload].field == ZT_TENSOR_RAW_DATA)
        return read_raw(file, &file->scan.pieces.at[m->first_payload], wanted, tensor, err);
    return !storage->computed || read_typed(file, m, tensor, err);
}

bool zt_onnx_tensor(struct zt_onnx_file *file, int message, const Onnx__TensorProto *t, const char *where,
                    struct zt_tensor *tensor, struct zt_err *err) {
    int first = err->count;
    *tensor = (struct zt_tensor){ 0 };
    return read_contents(file, message, t, tensor, err) || zt_err_within(err, first, "%s", where);
}

/* ---- writing ---- */

const void *zt_onnx_raw(struct zt_arena *arena, const struct zt_tensor *tensor, size_t *bytes) {
    const int64_t count = zt_shape_count(&tensor->shape);
    const int bits = zt_dtype_bits(tensor->dtype);
    *bytes = (size_t)zt_packed_bytes((uint64_t)count, bits);
    if (bits >= 8)
        return tensor->data;
    unsigned char *packed = zt_arena_alloc(arena, *bytes);
    zt_dtype_pack(bits, tensor->data, count, packed);
    return packed;
}

unsigned char *zt_onnx_encode(struct zt_arena *arena, enum zt_dtype dtype, const void *data, int64_t count,
                              size_t *bytes) {
    uint32_t field = zt_onnx_storage((int32_t)dtype)->field;
    size_t width = zt_dtype_bytes(dtype);
    bool fixed = field == ZT_TENSOR_FLOAT_DATA || field == ZT_TENSOR_DOUBLE_DATA;
    unsigned char *to = zt_arena_alloc(arena, (size_t)count * (fixed ? width : 10));
    *bytes = fixed ? (size_t)count * width : 0;
    if (fixed && count)
        memcpy(to, data, *bytes);
    for (int64_t i = 0; !fixed && i < count; i++) {
        bool bits = dtype == ZT_FLOAT16 || dtype == ZT_BFLOAT16; /* stored as their bit pattern */
        uint64_t value = (uint64_t)zt_load_int(bits ? ZT_UINT16 : dtype, data, i);
        *bytes += (size_t)zt_wire_put_varint(to + *bytes, value);
    }
    return to;
}
