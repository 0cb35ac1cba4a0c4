/* ONNX files: reads a model into a graph without copying weights, and writes the trained model.
 *
 * The file is mapped. A wire scan checks limits (nesting depth 100, field counts, lengths, memory for unpacking) and
 * finds the byte ranges of all tensor payloads; then protobuf-c unpacks a copy of the file without payloads. Weights
 * stay in the mapping of the file or of an external data file; typed data fields (such as float_data) are decoded into
 * the arena. */
#ifndef ZT_GRAPH_ONNX_ONNX_H
#define ZT_GRAPH_ONNX_ONNX_H

#include "base/err.h"
#include "graph/ir/graph.h"
#include "graph/ir/list.h"

struct zt_op_table;

struct zt_onnx_opset {
    const char *domain; /* "" for ai.onnx */
    int64_t version;
};

struct zt_onnx {
    const char *path;
    int64_t ir_version;
    const char *producer; /* such as "pytorch 2.15.0"; "": none */
    struct zt_onnx_opset *opsets;
    int opset_count;
    int newest_opset;            /* newest opset of ai.onnx that the graph or a function imports */
    struct zt_graph *graph;      /* all nodes of the file, with file_index; rows are not resolved */
    const char *torch_signature; /* metadata pkg.torch.export.ExportedProgram.graph_signature; NULL: none */
    struct zt_onnx_file *file;   /* mapping and byte positions, for writing */
};

enum zt_onnx_weights {
    ZT_WEIGHTS_MAPPED,
    ZT_WEIGHTS_ABSENT_OK
}; /* ABSENT_OK: external data files may be missing (plan, inspect) */

/* An initializer that the file lacks, for one input of a node. */
struct zt_onnx_own {
    const char *name;
    const char *kind, *folded_from; /* PyTorch's InputSpec.kind or onnxscript's folded_from; NULL: none */
    struct zt_tensor tensor;
    int node, in; /* file_index, and the input; `in` may be the first that the node does not have */
    bool is_copy; /* of the initializer that the node reads in the file */
};

/* Reads a model. Errors have the form "PATH: tensor or node: problem" and exit code ZT_EXIT_MODEL. */
struct zt_onnx *zt_onnx_read(const char *path, enum zt_onnx_weights weights, struct zt_err *err);
void zt_onnx_destroy(struct zt_onnx *model);
/* The newest supported opset of ai.onnx. */
enum { ZT_ONNX_OPSET_LAST = 28 };
/* Fails if the graph or a function imports a newer opset, whose operators may have another meaning. */
bool zt_onnx_check_opset(const struct zt_onnx *model, struct zt_err *err);

/* CRC-32C of the file followed by its external data files, in the order in which tensors name them. Reads all files, at
 * about 0.4 s per GB of cached data. */
uint32_t zt_onnx_checksum(const struct zt_onnx *model);
/* Whether the file has an initializer or a Constant node's tensor with this name, or zt_onnx_own() added one. */
bool zt_onnx_stores(const struct zt_onnx *model, const char *name);

/* Gives an input of a node of the model's graph an initializer of its own, in the graph and in what is written. `own`:
 * names, tensor, file_index and input; strings and contents must live as long as the model. The name is new, or
 * one that an earlier call gave. */
void zt_onnx_own(struct zt_onnx *model, const struct zt_onnx_own *own);
/* All calls' arguments in their order. Returns the count. */
int zt_onnx_owned(const struct zt_onnx *model, const struct zt_onnx_own **list);
/* Whether zt_onnx_own() added the initializer. It keeps its type in what is written. */
bool zt_onnx_adds(const struct zt_onnx *model, const char *name);

/* New contents of an initializer, with dtype and shape of the file. */
struct zt_onnx_payload {
    const char *name;
    const void *data;
    enum zt_dtype half; /* ZT_FLOAT16 or ZT_BFLOAT16: `data`, and from now on the float initializer, have this type; a
                           Cast back to float feeds the nodes that read it, except Cast nodes. Else ZT_UNDEFINED */
};
/* A node to convert to inference form: its attribute training_mode or its training input is removed, and all outputs
 * after the first with their value_info. If other nodes read those outputs, they stay: BatchNormalization is then
 * unchanged, and of Dropout only the input is removed. Nodes inside functions and subgraphs, which may run several
 * times, are not changed. */
struct zt_onnx_inference {
    int node;  /* file_index */
    int input; /* the training input; 0: the attribute training_mode */
};
/* QuantizeLinear and DequantizeLinear of a value, for input `in` of each of these nodes (file_index). */
struct zt_onnx_reader {
    int node, in;
};
struct zt_onnx_pair {
    const char *value;
    struct zt_tensor scale, zero;
    int axis; /* -1: one scale */
    const struct zt_onnx_reader *readers;
    int reader_count;
};
/* The changes of a trained model. All other bytes are copied. */
struct zt_onnx_changes {
    const struct zt_onnx_payload *payloads; /* initializers, and values of Constant nodes by output name */
    int payload_count;
    const char *const *aliases; /* outputs of Identity nodes of initializers that become initializers: the node is
                                   removed, a tensor (payload of that name, or a copy of the source) is added */
    int alias_count;
    const struct zt_onnx_inference *inference_nodes;
    int inference_node_count;
    const struct zt_onnx_pair *pairs;
    int pair_count;
};
/* Writes the model atomically. The payloads of a model over 2 GB are written to an external data file (NAME.data). */
bool zt_onnx_write(const struct zt_onnx *model, const char *path, const struct zt_onnx_changes *changes,
                   struct zt_err *err);

/* ---- export of a graph with concrete shapes, for any ONNX runtime ---- */

/* Nodes of our own ops and old forms become local functions (graph/export/function_body.h). Every value must have dtype
 * and shape, and every initializer its data. */
struct zt_emit_output {
    const char *name; /* in the file */
    int value;
};
struct zt_emit {
    const int *inputs;
    int input_count;
    const struct zt_emit_output *outputs;
    int output_count;
    const char *doc;    /* of the graph */
    const char *source; /* the file of the graph, which errors of nodes begin with; NULL: none */
};
/* Writes the file atomically. Fails for a graph over 2 GB, and for nodes without an ONNX function body, which the error
 * lists. */
bool zt_onnx_emit(const struct zt_graph *g, const struct zt_op_table *table, const struct zt_emit *what,
                  const char *path, struct zt_err *err);

/* Reads a file with a single TensorProto, such as input_0.pb of the standard's tests. Contents are allocated in
 * `arena`. */
bool zt_onnx_read_tensor(const char *path, struct zt_arena *arena, struct zt_tensor *tensor, const char **name,
                         enum zt_exit code, struct zt_err *err);
/* The elements as a TensorProto's raw_data has them: packed (graph/ir/dtype.h). Elements of 8 bits and more are the
 * tensor's own, others a copy in `arena`. */
const void *zt_onnx_raw(struct zt_arena *arena, const struct zt_tensor *tensor, size_t *bytes);
bool zt_onnx_write_tensor(const char *path, const char *name, const struct zt_tensor *tensor, struct zt_err *err);

/* The contents of a sequence or optional. */
struct zt_onnx_list {
    enum zt_list_kind kind;
    bool of_sequence;               /* the element of an optional is a sequence */
    bool empty;                     /* the optional has no element */
    const struct zt_tensor *tensor; /* of the sequence, or of the element */
    int tensor_count;
};
/* The same of a file with a single SequenceProto or OptionalProto. list->kind and list->of_sequence say what it must
 * hold. Files with other elements than tensors fail. */
bool zt_onnx_read_list(const char *path, struct zt_arena *arena, struct zt_onnx_list *list, enum zt_exit code,
                       struct zt_err *err);
bool zt_onnx_write_list(const char *path, const char *name, const struct zt_onnx_list *list, struct zt_err *err);

#endif
