/* Shapes to strides for launchers: broadcasting, and merging of adjacent axes, because kernels divide by every
 * dimension. */
#ifndef ZT_OPS_CUDA_BROADCAST_CUDA_H
#define ZT_OPS_CUDA_BROADCAST_CUDA_H

#include "ops/cuda/launch_broadcast.h"
#include "ops/cuda/launch_strided_copy.h"

/* A copy between tensors of shape `dim` with strides `from` and `to`, axes merged. */
struct zt_launch_strided_copy zt_strided_copy_cuda(int axes, const int64_t *dim, const int64_t *from,
                                                   const int64_t *to);

/* Strides of `of`, whose own are `own`, along the axes of `y`, right-aligned: 0 along broadcast axes. */
void zt_steps_cuda(const struct zt_shape *y, const struct zt_shape *of, const int64_t *own, int64_t step[ZT_MAX_RANK]);

/* a and b broadcast to y, right-aligned, axes merged: tensors of one shape have one axis. */
struct zt_launch_walk zt_walk_cuda(const struct zt_shape *y, const struct zt_shape *a, const struct zt_shape *b);

#endif
