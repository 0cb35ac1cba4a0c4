/* The state of an ONNX file between reading and writing, and its stored tensors. Private to graph/onnx/. */
#ifndef ZT_GRAPH_ONNX_FILE_H
#define ZT_GRAPH_ONNX_FILE_H

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"
#include "graph/ir/graph.h"
#include "graph/ir/functions.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/scan.h"

#include "onnx.pb-c.h"

/* A tensor that training may change: an initializer (of the main graph or of a subgraph), or the value of a Constant
 * node of the main graph. */
struct zt_onnx_stored {
    const char *name; /* of the value */
    int message;      /* its TensorProto; -1: not in the file (zt_onnx_own()) */
    struct zt_tensor tensor;
};

struct zt_onnx_external {
    char *location; /* as in the file */
    struct zt_file_map map;
};

struct zt_onnx_file {
    struct zt_arena *arena; /* names and decoded payloads; outlives the graph */
    struct zt_file_map map;
    struct zt_onnx_scan scan;
    char *folder;      /* external data must be below it */
    enum zt_exit code; /* exit code of errors about this file */
    enum zt_onnx_weights weights;
    ZT_VEC(struct zt_onnx_external) externals;
    struct zt_map external_by_location;
    ZT_VEC(struct zt_onnx_stored) stored;
    struct zt_map stored_by_name;
    ZT_VEC(struct zt_onnx_own) owned;
    ZT_VEC(struct zt_graph *) bodies; /* of attributes and functions */
    struct zt_functions functions;
    uint64_t written_out; /* bytes of all sparse tensors (zt_onnx_sparse()) */
};

/* The metadata keys of PyTorch's InputSpec.kind and of onnxscript's folded_from. */
extern const char zt_onnx_key_torch_kind[], zt_onnx_key_torch_folded_from[];

/* ONNX's storage of an element type. */
struct zt_onnx_storage {
    uint32_t field; /* of the typed data */
    int bits;       /* per element of raw data; 0: no raw form (strings) */
    bool computed;  /* zt_dtype_bytes() > 0 */
};
/* The storage of a data type; NULL: unknown number. */
const struct zt_onnx_storage *zt_onnx_storage(int32_t data_type);

/* The bytes of a tensor in an external file, checked against the file's size. `data` is NULL if the file is absent and
 * absence is allowed. */
struct zt_onnx_region {
    const char *location; /* in the arena */
    const unsigned char *data;
    uint64_t offset, bytes;
};
/* Whether TensorProto `message` has external data. */
bool zt_onnx_is_external(const struct zt_onnx_scan *scan, int message);
/* Reads and checks the region. `wanted`: size in bytes by dims and type; UINT64_MAX: the size in the entries. */
bool zt_onnx_external(struct zt_onnx_file *file, int message, uint64_t wanted, struct zt_onnx_region *region,
                      struct zt_err *err);

/* Reads the contents of TensorProto `message`, unpacked as `t`. `where` names it in errors, such as: tensor "w1". */
bool zt_onnx_tensor(struct zt_onnx_file *file, int message, const Onnx__TensorProto *t, const char *where,
                    struct zt_tensor *tensor, struct zt_err *err);

/* The same of SparseTensorProto `message`, written out with zeros. All of a file's take at most ZT_ONNX_MEMORY. */
bool zt_onnx_sparse(struct zt_onnx_file *file, int message, const Onnx__SparseTensorProto *t, const char *where,
                    struct zt_tensor *tensor, struct zt_err *err);

/* Encodes `count` elements as packed numbers, the contents of their typed data field. */
unsigned char *zt_onnx_encode(struct zt_arena *arena, enum zt_dtype dtype, const void *data, int64_t count,
                              size_t *bytes);

#endif
