/* cuDNN's graph API, as much of it as kernels here need: convolutions and what follows them, on strided tensors.
 *
 * A graph is described in two steps. zt_dnn_describe builds cuDNN's descriptors, for which it needs no device;
 * zt_dnn_plan adds the operation graph and asks cuDNN's heuristics for an engine. The first engine is taken
 * whose results are the same bits every time, that keeps fp32 in fp32 where that is wanted, and whose workspace is no
 * larger than ZT_DNN_WORKSPACE. */
#ifndef ZT_OPS_DNN_CUDA_H
#define ZT_OPS_DNN_CUDA_H

#include "base/err.h"
#include "graph/dtype.h"

struct zt_device;

enum { ZT_DNN_AXES = 3, ZT_DNN_RANK = ZT_DNN_AXES + 2, ZT_DNN_TENSORS = 5, ZT_DNN_OPERATIONS = 2 };
enum { ZT_DNN_ALIGNMENT = 16 }; /* of every tensor in memory */
#define ZT_DNN_WORKSPACE ((size_t)256 << 20)

struct zt_dnn_tensor {
    enum zt_dtype dtype; /* ZT_FLOAT, ZT_BFLOAT16 */
    bool inner;          /* between two operations: never in memory */
    int rank;
    int64_t dim[ZT_DNN_RANK], stride[ZT_DNN_RANK]; /* strides in elements */
};

/* y = conv(x, w); dx of w and dy; dw of x and dy; c = a + b, where b is stretched over its axes of length 1. Everything
 * is computed in fp32. */
enum zt_dnn_kind { ZT_DNN_CONV, ZT_DNN_CONV_DATA, ZT_DNN_CONV_WEIGHT, ZT_DNN_ADD };

struct zt_dnn_operation {
    enum zt_dnn_kind kind;
    int tensor[3]; /* convolutions: x, w, y whichever way they go; ADD: a, b, c */
};

/* x [n, c, in], w [m, c / groups, kernel], y [n, m, out]; groups show in the shapes. */
struct zt_dnn_conv {
    int axes;
    int64_t stride[ZT_DNN_AXES], dilation[ZT_DNN_AXES], pad[ZT_DNN_AXES], pad_end[ZT_DNN_AXES];
};

struct zt_dnn_graph {
    int tensor_count, operation_count;
    struct zt_dnn_tensor tensor[ZT_DNN_TENSORS];
    struct zt_dnn_operation operation[ZT_DNN_OPERATIONS];
    struct zt_dnn_conv conv; /* of the convolutions among them */
    bool tensor_cores;       /* fp32 may be rounded to TF32; bfloat16 uses them whatever this says */
};

/* Whether the device has its handle of cuDNN, made when first asked for. */
bool zt_dnn_ready(struct zt_device *device, struct zt_err *err);

/* Descriptors of everything in the graph, finalized. NULL with cuDNN's words. */
struct zt_dnn *zt_dnn_describe(const struct zt_dnn_graph *graph, struct zt_err *err);

/* Makes it ready to run on a device that zt_dnn_ready has found good. False where no engine will do, with the reason;
 * destroy it then. */
bool zt_dnn_plan(struct zt_dnn *dnn, struct zt_device *device, struct zt_err *err);
/* The same for a GPU that need not be here, from its properties in cuDNN's JSON: whether there will be an engine. What
 * is planned so cannot be run. */
bool zt_dnn_plan_for(struct zt_dnn *dnn, const char *properties, struct zt_err *err);
size_t zt_dnn_workspace_bytes(const struct zt_dnn *dnn);

/* Queues it on the device's stream; data: of every tensor by its number, multiples of ZT_DNN_ALIGNMENT, NULL for inner
 * ones. `name`: of the node, for errors. */
bool zt_dnn_run(const struct zt_dnn *dnn, void *const *data, void *workspace, const char *name, struct zt_err *err);

void zt_dnn_destroy(struct zt_dnn *dnn);

#endif
