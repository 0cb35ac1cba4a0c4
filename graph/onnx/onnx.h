/* ONNX files: reading a model into a graph without copying weights, and writing the trained model back.
 *
 * Reading: the file is mapped; a wire scan checks it against limits (nesting depth 100, field counts, every length
 * inside the file, memory that unpacking would take) and finds the byte ranges of all tensor payloads; then protobuf-c
 * unpacks a copy of the file without those payloads. Weights stay in the mapping (or that of an external data file);
 * typed data fields (float_data and so on) are decoded into the arena. */
#ifndef ZT_GRAPH_ONNX_ONNX_H
#define ZT_GRAPH_ONNX_ONNX_H

#include "base/err.h"
#include "graph/ir/graph.h"

struct zt_op_table;

struct zt_onnx_opset {
    const char *domain; /* "" for ai.onnx */
    int64_t version;
};

struct zt_onnx {
    const char *path;
    int64_t ir_version;
    const char *producer; /* "pytorch 2.15.0", "" where the file has none */
    struct zt_onnx_opset *opsets;
    int opset_count;
    int newest_opset;       /* of ai.onnx, in the graph or a function */
    struct zt_graph *graph; /* all nodes of the file, file_index set, rows not resolved */
    const char
        *torch_signature; /* metadata pkg.torch.export.ExportedProgram.graph_signature of the graph, NULL without */
    struct zt_onnx_file *file; /* mapping and byte positions, for writing */
};

enum zt_onnx_weights {
    ZT_WEIGHTS_MAPPED,
    ZT_WEIGHTS_ABSENT_OK
}; /* the second: external files need not be there (plan, inspect) */

/* Errors: "PATH: tensor or node: what", code ZT_EXIT_MODEL. */
struct zt_onnx *zt_onnx_read(const char *path, enum zt_onnx_weights weights, struct zt_err *err);
void zt_onnx_destroy(struct zt_onnx *model);
/* The newest opset of ai.onnx whose operators the table knows. */
enum { ZT_ONNX_OPSET_LAST = 28 };
/* Refuses a model that imports a newer one, in its graph or in a function: what its operators mean is not known. */
bool zt_onnx_check_opset(const struct zt_onnx *model, struct zt_err *err);

/* CRC-32C of the file and, behind it, of every file with external data, in the order in which tensors name them. Reads
 * all of them: some 0.4 s a GB that the system has in memory. */
uint32_t zt_onnx_checksum(const struct zt_onnx *model);
/* Whether the file has an initializer, or a Constant node's tensor, of this name. */
bool zt_onnx_stores(const struct zt_onnx *model, const char *name);

/* New contents of an initializer, by name; dtype and shape as in the file. */
struct zt_onnx_payload {
    const char *name;
    const void *data;
};
/* A node that goes back to inference form: the attribute training_mode or the input that asks for training goes, and so
 * do outputs after the first, with their value_info. A node whose further outputs are read elsewhere keeps them: one
 * with the attribute (BatchNormalization) stays as it is, of one with the input (Dropout) only the input goes. Nodes
 * inside functions and bodies, which may stand for several, stay. */
struct zt_onnx_inference {
    int node;  /* file_index */
    int input; /* that asks for training; 0: the attribute does */
};
/* What training changed. All else is copied byte for byte. */
struct zt_onnx_changes {
    const struct zt_onnx_payload *payloads; /* initializers, or Constant nodes' value by output name */
    int payload_count;
    const char *const *aliases; /* outputs of Identity nodes over initializers that become initializers: the node goes,
                                   the tensor (payload of that name, or the source's bytes) comes */
    int alias_count;
    const struct zt_onnx_inference *inference_nodes;
    int inference_node_count;
};
/* Written atomically. A model over 2 GB gets its payloads in external data beside it (NAME.data). */
bool zt_onnx_write(const struct zt_onnx *model, const char *path, const struct zt_onnx_changes *changes,
                   struct zt_err *err);

/* A graph of concrete shapes as a file that any runtime of ONNX reads: nodes of ours and old forms become local
 * functions (graph/export/function_body.h). Every value has dtype and shape, every initializer its data. */
struct zt_emit_output {
    const char *name; /* in the file */
    int value;
};
struct zt_emit {
    const int *inputs;
    int input_count;
    const struct zt_emit_output *outputs;
    int output_count;
    const char *doc; /* of the graph */
};
/* Written atomically. Refuses, all at once, nodes whose rows do not say what they are in standard operators, and a
 * graph over 2 GB. */
bool zt_onnx_emit(const struct zt_graph *g, const struct zt_op_table *table, const struct zt_emit *what,
                  const char *path, struct zt_err *err);

/* A single TensorProto file (the standard's test data layout): input_N.pb. Contents into `arena`. */
bool zt_onnx_read_tensor(const char *path, struct zt_arena *arena, struct zt_tensor *tensor, const char **name,
                         enum zt_exit code, struct zt_err *err);
bool zt_onnx_write_tensor(const char *path, const char *name, const struct zt_tensor *tensor, struct zt_err *err);

#endif
