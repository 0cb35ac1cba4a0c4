/* Launchers of broadcast.cu: copies of broadcast tensors, and bias and ReLU in place. Conventions: launch.h. */
#ifndef ZT_OPS_CUDA_LAUNCH_BROADCAST_H
#define ZT_OPS_CUDA_LAUNCH_BROADCAST_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strides of two inputs, in elements, along the axes of the output: 0 along broadcast axes. */
struct zt_launch_walk {
    int rank; /* at least 1 */
    int64_t dim[ZT_MAX_RANK], a[ZT_MAX_RANK], b[ZT_MAX_RANK];
};
/* y = factor * b, y row-major; walk->a is not read. */
int zt_launch_broadcast(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_walk *walk,
                        float factor, const void *b, void *y);

/* y [samples, channels, plane]; channels last: a sample a place, of planes of 1. */
struct zt_launch_bias {
    enum zt_dtype dtype;
    int64_t samples, channels, plane;
    bool relu;
};
/* y += bias[channel], where bias is not NULL; then, with relu, y = max(y, 0), where NaN stays NaN. */
int zt_launch_bias(struct CUstream_st *stream, const struct zt_launch_bias *b, const void *bias, void *y);

#ifdef __cplusplus
}
#endif

#endif
