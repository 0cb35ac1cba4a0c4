/* A protobuf file with some bytes changed: all else is copied as it stands, and the lengths around each change are
 * mended.
 *
 *     GraphProto  tag len [ ... TensorProto tag len [ ... raw_data tag len [ 512 bytes ] ] ... ]
 *                     ^mended               ^mended            ^      replaced       ^
 *
 * A length whose message keeps its size keeps its bytes, so an edit that changes nothing gives the same file. */
#ifndef ZT_GRAPH_ONNX_EDIT_H
#define ZT_GRAPH_ONNX_EDIT_H

#include "graph/onnx/scan.h"

#include <stdio.h>

struct zt_onnx_edit {
    size_t at, remove;
    const void *bytes; /* NULL: in `own` */
    size_t count;
    int message, order;
    unsigned char own[10];
};

/* Zero-initialise and set `scan`. */
struct zt_onnx_edits {
    const struct zt_onnx_scan *scan;
    ZT_VEC(struct zt_onnx_edit) list;
};

/* Bytes [at, end), which lie in message `message` and in none of its recorded children, are replaced by `count` bytes
 * (borrowed until the write). Edits must not overlap; insertions at one place keep their order. */
void zt_onnx_edit_replace(struct zt_onnx_edits *edits, int message, size_t at, size_t end, const void *bytes,
                          size_t count);
void zt_onnx_edit_remove(struct zt_onnx_edits *edits, int message, size_t at, size_t end);
/* Takes a recorded message out, tag and all. No other edit may lie in it. */
void zt_onnx_edit_drop(struct zt_onnx_edits *edits, int message);

/* Size of the file with the edits made. */
uint64_t zt_onnx_edit_size(const struct zt_onnx_edits *edits);
/* Writes it; errors are kept in the stream. */
void zt_onnx_edit_write(struct zt_onnx_edits *edits, FILE *to);
void zt_onnx_edit_finish(struct zt_onnx_edits *edits);

#endif
