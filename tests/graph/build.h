/* ONNX files written field by field, for tests. Field numbers and types are not checked, so that files may be wrong. */
#ifndef ZT_TESTS_GRAPH_BUILD_H
#define ZT_TESTS_GRAPH_BUILD_H

#include "base/text.h"
#include "graph/onnx/onnx.h"

#include <check.h>
#include <stdint.h>

/* Append a field to a message. */
void put_int(struct zt_text *to, unsigned field, uint64_t value); /* a varint */
void put_bytes(struct zt_text *to, unsigned field, const void *bytes, size_t count);
void put_string(struct zt_text *to, unsigned field, const char *text);
void put_message(struct zt_text *to, unsigned field, struct zt_text *inside); /* frees `inside` */

/* Header of a model: IR version, opset 17. */
void put_header(struct zt_text *model, uint64_t ir_version);
/* A node with up to two inputs (NULL: none) and one output; `attribute` (may be NULL) is the inside of an
 * AttributeProto and is freed. */
void put_node(struct zt_text *graph, const char *name, const char *op, const char *a, const char *b, const char *out,
              struct zt_text *attribute);
/* A float initializer of one dim with raw data. */
void put_floats(struct zt_text *graph, const char *name, const float *data, uint64_t count);
/* A sparse tensor "s" of 2 x 3 with the values 1.5 and -2 at `indices`, numbers (rank 1) or places (2), as field
 * `field`. */
void put_sparse(struct zt_text *to, unsigned field, const int64_t *indices, int rank);
/* An input, output or value_info (`field`) without type. */
void put_value(struct zt_text *graph, unsigned field, const char *name);

/* y = w + b with w, b of two floats, output y: a whole model's graph. */
void put_sum(struct zt_text *graph);

/* The model with this graph (freed), written to a temporary file of its own; free the path with free(), remove the file
 * with remove_file. */
char *write_model(struct zt_text *graph);
char *write_file(const struct zt_text *bytes);
void remove_file(char *path);

/* Reads the file and removes it. */
struct zt_onnx *read_file(char *path, struct zt_err *err);
/* Reads a model with this graph, which must be refused with a message that contains `words`. */
void refuse_graph(struct zt_text *graph, const char *words);

/* Runs the cases as a suite named `name`; returns the exit status of main(). */
int run_cases(const char *name, TCase *cases);

#endif
