/* cuDNN's graph API: convolutions with epilogues, pools, normalisations and the operations of attention on strided
 * tensors.
 *
 * Of the engines that cuDNN's heuristics list, the first one is taken that gives the same bits every time, keeps fp32
 * in fp32 where that is wanted (without Winograd's transforms, which lose a digit and more), and whose workspace fits
 * the device. Finding and compiling an engine is slow: equal nodes share a plan, and plans are in the disk cache
 * (base/disk_cache.h) by graph, GPU and cuDNN's version. */
#ifndef ZT_OPS_CUDA_DNN_CUDA_H
#define ZT_OPS_CUDA_DNN_CUDA_H

#include "base/err.h"
#include "graph/ir/dtype.h"

struct zt_device;

enum { ZT_DNN_AXES = 3, ZT_DNN_RANK = ZT_DNN_AXES + 2, ZT_DNN_TENSORS = 48, ZT_DNN_OPERATIONS = 32 };
enum { ZT_DNN_ALIGNMENT = 16 }; /* of every tensor in memory */
/* Most bytes of workspace of an engine: a share of the GPU's memory (zt_cuda_workspace); of a GPU that is not in this
 * machine, an eighth of 80 GB. */
#define ZT_DNN_WORKSPACE ((size_t)10 << 30)

struct zt_dnn_tensor {
    enum zt_dtype dtype; /* ZT_FLOAT, ZT_BFLOAT16; of inner ones also ZT_INT32, ZT_BOOL */
    bool inner;          /* between two operations: never in memory */
    bool number;         /* one float, in the host's memory, read when the graph is queued */
    int rank;
    int64_t dim[ZT_DNN_RANK], stride[ZT_DNN_RANK]; /* strides in elements */
};

/* Operations compute in fp32. Where two tensors are combined, b is broadcast along its axes of length 1. */
enum zt_dnn_kind {
    ZT_DNN_CONV, /* y = conv(x, w); dx of w and dy; dw of x and dy */
    ZT_DNN_CONV_DATA,
    ZT_DNN_CONV_WEIGHT,
    ZT_DNN_MATMUL,  /* c[.., m, n] = a[.., m, k] b[.., k, n]; of b there may be one for several along an axis before */
    ZT_DNN_RESHAPE, /* b = the memory of a with the dims and strides of b */
    ZT_DNN_SUM,     /* b = sums over spans along the axes of a that are shorter in b */
    ZT_DNN_LARGEST,
    ZT_DNN_ADD, /* c = a + b and so on */
    ZT_DNN_SUBTRACT,
    ZT_DNN_MULTIPLY,
    ZT_DNN_DIVIDE,
    ZT_DNN_AT_LEAST, /* a >= b */
    ZT_DNN_EXP,      /* b = exp(a) and so on */
    ZT_DNN_LOG,
    ZT_DNN_ROW,    /* an element's place along axis 2 of a */
    ZT_DNN_COLUMN, /* along axis 3 */
    ZT_DNN_SELECT, /* d = c ? a : b */
    ZT_DNN_NORM,   /* y, mean and inv_std of x, scale, bias and the number epsilon */
    ZT_DNN_NORM_GRAD,
    ZT_DNN_POOL, /* y of x */
    ZT_DNN_POOL_GRAD
};
/* Operands in the order above; of a gradient dx, dscale and dbias of x, scale, mean, inv_std and dy. */
enum { ZT_DNN_NORM_OPERANDS = 7, ZT_DNN_NORM_GRAD_OPERANDS = 8, ZT_DNN_OPERANDS = 8 };

struct zt_dnn_operation {
    enum zt_dnn_kind kind;
    int tensor[ZT_DNN_OPERANDS]; /* convolutions: x, w, y in every direction; pools: x, y; norms: -1 for what is not
                                    there; else a, b, c, d */
};

/* The part of x [n, c, ...] that has its own statistics: every n; every n, without the mean; every c of every n;
 * every c. */
enum zt_dnn_norm { ZT_DNN_LAYER_NORM, ZT_DNN_RMS_NORM, ZT_DNN_INSTANCE_NORM, ZT_DNN_BATCH_NORM };

/* Max pooling, where NaN is the largest; average pooling over the whole window, or over its elements inside x. Max
 * pooling has no gradient here: cuDNN does not document which of equal elements receives it. */
enum zt_dnn_pool { ZT_DNN_MAX_POOL, ZT_DNN_AVERAGE_POOL, ZT_DNN_AVERAGE_POOL_INSIDE };

/* Of a convolution: x [n, c, in], w [m, c / groups, kernel], y [n, m, out]; the shapes give the groups. Of a pool: x
 * [n, c, in], y [n, c, out]; no dilation. */
struct zt_dnn_window {
    int axes;
    int64_t kernel[ZT_DNN_AXES], stride[ZT_DNN_AXES], dilation[ZT_DNN_AXES], pad[ZT_DNN_AXES], pad_end[ZT_DNN_AXES];
};

struct zt_dnn_graph {
    int tensor_count, operation_count;
    struct zt_dnn_tensor tensor[ZT_DNN_TENSORS];
    struct zt_dnn_operation operation[ZT_DNN_OPERATIONS];
    struct zt_dnn_window window; /* of the convolutions and pools among them */
    enum zt_dnn_pool pool;       /* of the pools */
    enum zt_dnn_norm norm;       /* of the normalisations */
    bool tensor_cores;           /* fp32 may be rounded to TF32; half types use them whatever this says */
};

/* Version of the loaded library: 10000 major + 100 minor + patch. */
int zt_dnn_version(void);
/* Creates the device's handle of cuDNN at the first call. False with the reason where there is none. */
bool zt_dnn_ready(struct zt_device *device, struct zt_err *err);

/* The executable plan of the graph. The device owns it; equal graphs share one. NULL with the reason where cuDNN or
 * an engine is missing. */
const struct zt_dnn *zt_dnn_get(struct zt_device *device, const struct zt_dnn_graph *graph, struct zt_err *err);

/* Bytes of workspace of every run. */
size_t zt_dnn_workspace_bytes(const struct zt_dnn *dnn);

/* Queues the plan on the device's stream. data[i]: address of tensor i, a multiple of ZT_DNN_ALIGNMENT unless it is a
 * number; those of inner and unused tensors are not read. `name`: of the node, for errors. */
bool zt_dnn_run(const struct zt_dnn *dnn, void *const *data, void *workspace, const char *name, struct zt_err *err);

/* For a GPU that need not be in this machine. zt_dnn_describe finalizes descriptors of the whole graph; NULL with
 * cuDNN's message. zt_dnn_plan_for tells from the GPU's properties, in cuDNN's JSON, whether an engine exists. Such
 * plans cannot run. */
struct zt_dnn *zt_dnn_describe(const struct zt_dnn_graph *graph, struct zt_err *err);
bool zt_dnn_plan_for(struct zt_dnn *dnn, const char *properties, struct zt_err *err);
bool zt_dnn_was_cached(const struct zt_dnn *dnn); /* its plan comes from the disk cache */
void zt_dnn_destroy(struct zt_dnn *dnn);

#endif
