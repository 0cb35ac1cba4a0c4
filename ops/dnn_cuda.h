/* cuDNN's graph API, as much of it as kernels here need: convolutions and what follows them, and what attention is made
 * of, on strided tensors.
 *
 * A graph is described in two steps. zt_dnn_describe builds cuDNN's descriptors, for which it needs no device;
 * zt_dnn_plan adds the operation graph and asks cuDNN's heuristics for an engine. The first engine is taken
 * whose results are the same bits every time, that keeps fp32 in fp32 where that is wanted and loses no NaN, and whose
 * workspace is no larger than ZT_DNN_WORKSPACE. */
#ifndef ZT_OPS_DNN_CUDA_H
#define ZT_OPS_DNN_CUDA_H

#include "base/err.h"
#include "graph/dtype.h"

struct zt_device;

enum { ZT_DNN_AXES = 3, ZT_DNN_RANK = ZT_DNN_AXES + 2, ZT_DNN_TENSORS = 48, ZT_DNN_OPERATIONS = 32 };
enum { ZT_DNN_ALIGNMENT = 16 }; /* of every tensor in memory */
#define ZT_DNN_WORKSPACE ((size_t)256 << 20)

struct zt_dnn_tensor {
    enum zt_dtype dtype; /* ZT_FLOAT, ZT_BFLOAT16; of inner ones also ZT_INT32, ZT_BOOL */
    bool inner;          /* between two operations: never in memory */
    bool number;         /* one float, in the host's memory, read when the graph is queued */
    int rank;
    int64_t dim[ZT_DNN_RANK], stride[ZT_DNN_RANK]; /* strides in elements */
};

/* Everything is computed in fp32. Where elements meet, b is stretched over its axes of length 1. */
enum zt_dnn_kind {
    ZT_DNN_CONV, /* y = conv(x, w); dx of w and dy; dw of x and dy */
    ZT_DNN_CONV_DATA,
    ZT_DNN_CONV_WEIGHT,
    ZT_DNN_MATMUL,  /* c[.., m, n] = a[.., m, k] b[.., k, n]; of b there may be one for several along an axis before */
    ZT_DNN_RESHAPE, /* b = what stands in the memory of a, by the sides and strides of b */
    ZT_DNN_SUM,     /* b = sum over runs along the axes of a that are shorter in b */
    ZT_DNN_LARGEST,
    ZT_DNN_ADD, /* c = a + b and so on */
    ZT_DNN_SUBTRACT,
    ZT_DNN_MULTIPLY,
    ZT_DNN_DIVIDE,
    ZT_DNN_AT_LEAST, /* a >= b */
    ZT_DNN_RELU,     /* b = max(a, 0), NaN where a is */
    ZT_DNN_EXP,      /* b = exp(a) and so on */
    ZT_DNN_LOG,
    ZT_DNN_ROW,    /* an element's place along axis 2 of a */
    ZT_DNN_COLUMN, /* along axis 3 */
    ZT_DNN_SELECT  /* d = c ? a : b */
};

struct zt_dnn_operation {
    enum zt_dnn_kind kind;
    int tensor[4]; /* convolutions: x, w, y whichever way they go; else a, b, c, d */
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

/* Of the library that is loaded: 10000 major + 100 minor + patch. */
int zt_dnn_version(void);
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

/* What kernels do about addresses that cuDNN does not take: *data as it is where it does, else its copy at `room`. */
bool zt_dnn_is_placed(const void *data);
bool zt_dnn_bring(struct zt_device *device, void **data, void *room, size_t bytes, struct zt_err *err);

/* Queues it on the device's stream; data: of every tensor by its number, multiples of ZT_DNN_ALIGNMENT but for numbers,
 * NULL for inner ones and those in no operation. `name`: of the node, for errors. */
bool zt_dnn_run(const struct zt_dnn *dnn, void *const *data, void *workspace, const char *name, struct zt_err *err);

void zt_dnn_destroy(struct zt_dnn *dnn);

#endif
