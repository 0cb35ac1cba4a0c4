/* What onnx_read leaves for onnx_write, and how both see a stored tensor. Private to graph/onnx_*.c. */
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

/* A tensor whose contents training may change: an initializer, of the main graph or lifted out of a body, or the value
 * of a Constant node of the main graph. */
struct zt_onnx_stored {
    const char *name; /* that of the value */
    int message;      /* its TensorProto */
    struct zt_tensor tensor;
};

struct zt_onnx_external {
    char *location; /* as the file has it */
    struct zt_file_map map;
};

struct zt_onnx_file {
    struct zt_arena *arena; /* names and decoded payloads; outlives the graph */
    struct zt_file_map map;
    struct zt_onnx_scan scan;
    char *folder;      /* external data lie below it */
    enum zt_exit code; /* of errors about this file */
    enum zt_onnx_weights weights;
    ZT_VEC(struct zt_onnx_external) externals;
    struct zt_map external_by_location;
    ZT_VEC(struct zt_onnx_stored) stored;
    struct zt_map stored_by_name;
    ZT_VEC(struct zt_graph *) bodies; /* of attributes and functions */
    struct zt_functions functions;
};

/* How ONNX stores an element type. */
struct zt_onnx_storage {
    uint32_t field; /* of the typed data */
    int bits;       /* an element of raw data; 0: has no raw form (strings) */
    bool computed;  /* zt_dtype_bytes() > 0 */
};
/* NULL for a number that is no data type. */
const struct zt_onnx_storage *zt_onnx_storage(int32_t data_type);

/* Bytes of a tensor in an external file. Filled from the wire and checked against the file; `data` is NULL where the
 * file is not there and need not be. */
struct zt_onnx_region {
    const char *location; /* in the arena */
    const unsigned char *data;
    uint64_t offset, bytes;
};
/* Whether TensorProto `message` says that its data are elsewhere. */
bool zt_onnx_is_external(const struct zt_onnx_scan *scan, int message);
/* `wanted`: bytes that dims and type make, UINT64_MAX: as many as the entries say. */
bool zt_onnx_external(struct zt_onnx_file *file, int message, uint64_t wanted, struct zt_onnx_region *region,
                      struct zt_err *err);

/* Contents of TensorProto `message`, unpacked as `t`. `where` names it in errors: tensor "w1". */
bool zt_onnx_tensor(struct zt_onnx_file *file, int message, const Onnx__TensorProto *t, const char *where,
                    struct zt_tensor *tensor, struct zt_err *err);

/* `count` elements as the contents of the typed data field of their type (packed numbers). */
unsigned char *zt_onnx_encode(struct zt_arena *arena, enum zt_dtype dtype, const void *data, int64_t count,
                              size_t *bytes);

#endif
