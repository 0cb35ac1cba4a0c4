/* Launchers of broadcast.cu: sums and copies of broadcast tensors, and ReLU in place. Conventions: launch.h. */
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
/* y = a + b, y row-major. */
int zt_launch_add(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, const void *a,
                  const void *b, void *y);
/* y = factor * b, y row-major; walk->a is not read. */
int zt_launch_broadcast(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_walk *walk,
                        float factor, const void *b, void *y);
/* y = max(y, 0) of `count` elements; NaN stays NaN. */
int zt_launch_relu(struct CUstream_st *stream, enum zt_dtype dtype, int64_t count, void *y);

#ifdef __cplusplus
}
#endif

#endif
