/* Conventions of the launchers of CUDA kernels. A launcher is a C function in a *.cu file that queues kernels; the
 * header launch_*.h beside the *.cu file declares it. C and C++ include these headers.
 *
 * A launcher queues its kernels on `stream` and returns the cudaError_t of queueing them. Its arguments are plain data,
 * never graphs. Pointers are device addresses. A dtype is ZT_FLOAT, ZT_FLOAT16 or ZT_BFLOAT16 unless the launcher says
 * otherwise; arithmetic is in fp32. The order of a sum depends on the shapes alone: results have the same bits in every
 * run. A kernel cannot report an error: each launcher says which result an invalid index gives. */
#ifndef ZT_OPS_CUDA_LAUNCH_H
#define ZT_OPS_CUDA_LAUNCH_H

#include "graph/ir/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* A tensor without a shape. data NULL: the tensor is absent. */
struct zt_launch_tensor {
    enum zt_dtype dtype;
    void *data;
};

#ifdef __cplusplus
}
#endif

#endif
