/* Shared by the files that edit a trained model (write.c). */
#ifndef ZT_GRAPH_ONNX_WRITER_H
#define ZT_GRAPH_ONNX_WRITER_H

#include "base/text.h"
#include "graph/onnx/edit.h"
#include "graph/onnx/file.h"

enum {
    ZT_EXTERNAL_ALIGN = 4096,      /* the standard asks for a page */
    ZT_EXTERNAL_FROM_BYTES = 1024, /* smaller initializers stay in a file that is too large */
};

/* A stretch of the external file. */
struct zt_onnx_stretch {
    const void *data;
    uint64_t bytes, offset;
};

struct zt_onnx_writer {
    struct zt_onnx_file *file;
    const struct zt_onnx_scan *scan;
    const struct zt_onnx_changes *changes;
    struct zt_arena *arena; /* what the edits borrow */
    struct zt_onnx_edits edits;
    int graph, last_initializer; /* messages; -1: none */
    ZT_VEC(int) nodes;           /* message of each node of the graph */
    struct zt_map payload_by_name, alias_by_name;
    const char **cast; /* by payload: the name of its Cast to float; NULL: there is none */
    bool too_large;    /* payloads of initializers go to the external file */
    char *data_name;
    ZT_VEC(struct zt_onnx_stretch) stretches;
    uint64_t data_size;
    struct zt_err *err;
};

/* Text of a field, and text number `skip` of field `number` of a message, NULL where there are fewer. */
const char *zt_onnx_text_of(const struct zt_onnx_writer *w, const struct zt_wire_field *field);
const char *zt_onnx_text_field(const struct zt_onnx_writer *w, int message, uint32_t number, int skip);
/* Bytes of a tensor as raw data. */
uint64_t zt_onnx_bytes_of(const struct zt_tensor *tensor);
/* Append a field. */
void zt_onnx_put_number(struct zt_text *to, uint32_t field, enum zt_wire_type wire, uint64_t value);
void zt_onnx_put_text(struct zt_text *to, uint32_t field, const char *text, size_t length);
/* Replaces bytes at..end-1 by `bytes`, which are copied and freed. */
void zt_onnx_insert(struct zt_onnx_writer *w, int message, size_t at, size_t end, struct zt_text *bytes);
/* Room for `data` in the external file, and the fields of a tensor that point to it. */
void zt_onnx_put_outside(struct zt_onnx_writer *w, struct zt_text *to, const void *data, uint64_t bytes);
/* An entry of metadata. */
struct zt_onnx_mark {
    const char *key, *value;
};
/* Adds a tensor behind the last initializer. `data`: as raw data, borrowed until the write. A large one is
 * put outside where the model is too large. `mark`: its metadata, NULL: none. */
void zt_onnx_insert_initializer(struct zt_onnx_writer *w, const char *name, const struct zt_onnx_mark *mark,
                                const struct zt_tensor *tensor, const void *data);
/* Lets input `in` of node message `node` name another value. */
void zt_onnx_read_instead(struct zt_onnx_writer *w, int node, int in, const char *name);
/* Marks the names of all values of nodes. */
void zt_onnx_names_taken(const struct zt_onnx_writer *w, struct zt_map *taken);

/* Whether the node message reads an initializer of zt_onnx_own() at input `in`. */
bool zt_onnx_is_owned(const struct zt_onnx_writer *w, int node, int in);

/* Whether the node message is to read a pair of quantization at input `in`. */
bool zt_onnx_reads_pair(const struct zt_onnx_writer *w, int node, int in);

/* The edits of initializers that the file lacks, of those of 16 bits, and of pairs of quantization. */
bool zt_onnx_edit_owned(struct zt_onnx_writer *w);
bool zt_onnx_edit_halves(struct zt_onnx_writer *w);
bool zt_onnx_edit_pairs(struct zt_onnx_writer *w);

#endif
