/* Edits of a protobuf file: some byte ranges are replaced, and the lengths of the enclosing messages are updated. All
 * other bytes are copied unchanged.
 *
 *     GraphProto  tag len [ ... TensorProto tag len [ ... raw_data tag len [ 512 bytes ] ] ... ]
 *                     ^updated              ^updated           ^      replaced       ^
 *
 * The length of a message whose size stays the same keeps its encoding, so an edit without effect gives an equal file.
 */
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

/* Replaces bytes at..end-1, which are in message `message` and in none of its recorded children, by `count` bytes
 * (borrowed until the write). Edits must not overlap; insertions at one position keep their order. */
void zt_onnx_edit_replace(struct zt_onnx_edits *edits, int message, size_t at, size_t end, const void *bytes,
                          size_t count);
void zt_onnx_edit_remove(struct zt_onnx_edits *edits, int message, size_t at, size_t end);
/* Removes a recorded message with its tag. It must not contain other edits. */
void zt_onnx_edit_drop(struct zt_onnx_edits *edits, int message);

/* Size of the edited file in bytes. */
uint64_t zt_onnx_edit_size(const struct zt_onnx_edits *edits);
/* Writes the edited file; the stream's error flag reports failures. */
void zt_onnx_edit_write(struct zt_onnx_edits *edits, FILE *to);
void zt_onnx_edit_finish(struct zt_onnx_edits *edits);

#endif
