/* cuDNN's graph API, as much of it as kernels here need: convolutions and what follows them, pools, normalisations, and
 * what attention is made of, on strided tensors.
 *
 * Of the engines that cuDNN's heuristics name the first is taken whose results are the same bits every time, that keeps
 * fp32 in fp32 where that is wanted and loses no NaN, and whose workspace the device has room for. That
 * takes its time, and so does what the engine compiles: nodes that are alike have one plan, and plans are kept on disk
 * (base/disk_cache.h), by the graph, the GPU and cuDNN's version. */
#ifndef ZT_OPS_CUDA_DNN_CUDA_H
#define ZT_OPS_CUDA_DNN_CUDA_H

#include "base/err.h"
#include "graph/ir/dtype.h"

struct zt_device;

enum { ZT_DNN_AXES = 3, ZT_DNN_RANK = ZT_DNN_AXES + 2, ZT_DNN_TENSORS = 48, ZT_DNN_OPERATIONS = 32 };
enum { ZT_DNN_ALIGNMENT = 16 }; /* of every tensor in memory */
/* The workspace that an engine may have at most, in bytes: a share of the GPU's memory (zt_cuda_workspace). Of a GPU
 * that is not here, an eighth of 80 GB. */
#define ZT_DNN_WORKSPACE ((size_t)10 << 30)

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
    ZT_DNN_ABOVE,    /* a > b */
    ZT_DNN_RELU,     /* b = max(a, 0), NaN where a is */
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
/* In the order above; of the gradient dx, dscale and dbias of x, scale, mean, inv_std and dy. */
enum { ZT_DNN_NORM_OPERANDS = 7, ZT_DNN_NORM_GRAD_OPERANDS = 8, ZT_DNN_OPERANDS = 8 };

struct zt_dnn_operation {
    enum zt_dnn_kind kind;
    int tensor[ZT_DNN_OPERANDS]; /* convolutions: x, w, y whichever way they go; pools: x, y; norms: -1 for what is not
                                    there; else a, b, c, d */
};

/* What of x [n, c, ..] has statistics of its own: every n; the same, but for the mean; every c of every n; every c. */
enum zt_dnn_norm { ZT_DNN_LAYER_NORM, ZT_DNN_RMS_NORM, ZT_DNN_INSTANCE_NORM, ZT_DNN_BATCH_NORM };

/* The largest element of a window, NaN where there is one; their mean over the whole window, or over what of it is in
 * x. Of the first there is no gradient: cuDNN does not say which of equal elements has it. */
enum zt_dnn_pool { ZT_DNN_MAX_POOL, ZT_DNN_MEAN_POOL, ZT_DNN_MEAN_POOL_INSIDE };

/* Of a convolution: x [n, c, in], w [m, c / groups, kernel], y [n, m, out]; groups show in the shapes. Of a pool:
 * x [n, c, in], y [n, c, out]; no dilation. */
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

/* Of the library that is loaded: 10000 major + 100 minor + patch. */
int zt_dnn_version(void);
/* Whether the device has its handle of cuDNN, made when first asked for. */
bool zt_dnn_ready(struct zt_device *device, struct zt_err *err);

/* The graph, ready to run on the device, which owns it: one for all that ask for the same. NULL where cuDNN cannot be
 * had or no engine will do, with the reason. */
const struct zt_dnn *zt_dnn_get(struct zt_device *device, const struct zt_dnn_graph *graph, struct zt_err *err);

size_t zt_dnn_workspace_bytes(const struct zt_dnn *dnn);

/* Queues it on the device's stream; data: of every tensor by its number, multiples of ZT_DNN_ALIGNMENT but for numbers,
 * NULL for inner ones and those in no operation. `name`: of the node, for errors. */
bool zt_dnn_run(const struct zt_dnn *dnn, void *const *data, void *workspace, const char *name, struct zt_err *err);

/* For a GPU that need not be here. Descriptors of everything in the graph, finalized; NULL with cuDNN's words. And,
 * from the GPU's properties in cuDNN's JSON, whether there will be an engine. What is planned so cannot be run. */
struct zt_dnn *zt_dnn_describe(const struct zt_dnn_graph *graph, struct zt_err *err);
bool zt_dnn_plan_for(struct zt_dnn *dnn, const char *properties, struct zt_err *err);
bool zt_dnn_was_cached(const struct zt_dnn *dnn); /* its plan comes from disk */
void zt_dnn_destroy(struct zt_dnn *dnn);

#endif
