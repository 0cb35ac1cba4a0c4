/* Wire scan of a protobuf file: finds its messages and tensor payloads without unpacking it.
 *
 * One pass over the bytes checks what protobuf-c does not check: every length is inside its message, messages are
 * nested at most ZT_ONNX_DEPTH deep, singular fields occur once, and the memory for unpacking is within the limit.
 * Tensor payloads are located but not read, so the time depends on the structure of the file and not on its size.
 *
 * Messages are recorded in the order of their first byte, so a parent precedes its children. */
#ifndef ZT_GRAPH_ONNX_SCAN_H
#define ZT_GRAPH_ONNX_SCAN_H

#include "base/err.h"
#include "base/vec.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZT_ONNX_DEPTH = 100, /* nesting limit, as in protobuf's own libraries; a subgraph takes three levels */
};
#define ZT_ONNX_MEMORY (UINT64_C(1) << 30) /* limit in bytes for unpacking a file without payloads */

/* Field numbers (onnx.proto) that the scan uses. */
enum {
    ZT_MODEL_GRAPH = 7,
    ZT_MODEL_FUNCTIONS = 25,
    ZT_FUNCTION_NODE = 7,
    ZT_FUNCTION_ATTRIBUTE_PROTO = 11,
    ZT_GRAPH_NODE = 1,
    ZT_GRAPH_INITIALIZER = 5,
    ZT_GRAPH_INPUT = 11,
    ZT_GRAPH_OUTPUT = 12,
    ZT_GRAPH_VALUE_INFO = 13,
    ZT_GRAPH_SPARSE_INITIALIZER = 15,
    ZT_NODE_INPUT = 1,
    ZT_NODE_OUTPUT = 2,
    ZT_NODE_NAME = 3,
    ZT_NODE_OP_TYPE = 4,
    ZT_NODE_ATTRIBUTE = 5,
    ZT_NODE_DOMAIN = 7,
    ZT_ATTRIBUTE_NAME = 1,
    ZT_ATTRIBUTE_I = 3,
    ZT_ATTRIBUTE_T = 5,
    ZT_ATTRIBUTE_G = 6,
    ZT_ATTRIBUTE_TYPE = 20,
    ZT_ATTRIBUTE_SPARSE_TENSOR = 22,
    ZT_VALUE_INFO_NAME = 1,
    ZT_VALUE_INFO_TYPE = 2,
    ZT_TYPE_TENSOR = 1,
    ZT_TENSOR_TYPE_ELEM = 1,
    ZT_TENSOR_DIMS = 1,
    ZT_TENSOR_DATA_TYPE = 2,
    ZT_TENSOR_FLOAT_DATA = 4,
    ZT_TENSOR_INT32_DATA = 5,
    ZT_TENSOR_INT64_DATA = 7,
    ZT_TENSOR_NAME = 8,
    ZT_TENSOR_RAW_DATA = 9,
    ZT_TENSOR_DOUBLE_DATA = 10,
    ZT_TENSOR_UINT64_DATA = 11,
    ZT_TENSOR_EXTERNAL_DATA = 13,
    ZT_TENSOR_DATA_LOCATION = 14,
    ZT_TENSOR_METADATA = 16,
    ZT_SPARSE_VALUES = 1,
    ZT_SPARSE_INDICES = 2,
};

enum zt_wire_type { ZT_WIRE_VARINT = 0, ZT_WIRE_FIXED64 = 1, ZT_WIRE_BYTES = 2, ZT_WIRE_FIXED32 = 5 };

/* One field: the tag starts at `at`, the contents are data..end-1; the length of a ZT_WIRE_BYTES field is at
 * `length_at`. */
struct zt_wire_field {
    uint32_t number;
    enum zt_wire_type wire;
    size_t at, length_at, data, end;
    uint64_t value; /* of a varint; length of bytes, also if it exceeds the file */
};

/* Reads the field at `at`, before `end`. Returns NULL, or a short description of the error. */
const char *zt_wire_next(const unsigned char *file, size_t at, size_t end, struct zt_wire_field *field);
/* Reads the varint at *at and advances *at. False: it exceeds `end` or 10 bytes. */
bool zt_wire_varint(const unsigned char *file, size_t *at, size_t end, uint64_t *value);

/* A message that holds tensors, or describes a value. */
struct zt_onnx_message {
    const ProtobufCMessageDescriptor *type;
    int parent;                        /* index, -1: the file itself */
    uint32_t field;                    /* its field number in the parent */
    int ordinal;                       /* how many of that field stand before it in the parent */
    size_t tag_at, length_at, at, end; /* contents at [at, end) */
    int first_payload, payload_count;  /* of a TensorProto */
    bool sized;                        /* a TensorProto whose dims and type were read, and want `bytes` of data */
    uint64_t bytes;
};

/* A part of a tensor's data field. Adjacent unpacked numbers form one part. */
struct zt_onnx_piece {
    uint32_t field;
    bool unpacked;        /* [at, end) is tag, number, tag, number ... */
    size_t at, data, end; /* from the tag; contents at [data, end) */
};

struct zt_onnx_scan {
    const unsigned char *file;
    size_t size;
    ZT_VEC(struct zt_onnx_message) messages; /* [0] is the file */
    ZT_VEC(struct zt_onnx_piece) pieces;
    uint64_t memory; /* estimated bytes for unpacking without payloads */
};

/* Scans `size` bytes (borrowed) as a message of type `root`. `scan` is zero-initialised before and finished after, also
 * on failure. */
bool zt_onnx_scan(struct zt_onnx_scan *scan, const unsigned char *file, size_t size,
                  const ProtobufCMessageDescriptor *root, enum zt_exit code, struct zt_err *err);
void zt_onnx_scan_finish(struct zt_onnx_scan *scan);

/* The file without payloads, unpacked; free with protobuf_c_message_free_unpacked(message, NULL). */
ProtobufCMessage *zt_onnx_unpack(const struct zt_onnx_scan *scan, enum zt_exit code, struct zt_err *err);

/* The one child of `parent` in field `field`, -1 without. */
int zt_onnx_child(const struct zt_onnx_scan *scan, int parent, uint32_t field);

/* Finds the first field `number` of message `index` at or after *at (0: its start); *at becomes the end of the field.
 */
bool zt_onnx_find_field(const struct zt_onnx_scan *scan, int index, uint32_t number, size_t *at,
                        struct zt_wire_field *field);

#endif
