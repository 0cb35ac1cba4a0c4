/* Broadcasting for launchers: shapes to steps, with as few axes as will do. */
#ifndef ZT_OPS_CUDA_BROADCAST_CUDA_H
#define ZT_OPS_CUDA_BROADCAST_CUDA_H

#include "ops/cuda/launch_broadcast.h"
#include "ops/cuda/launch_strided_copy.h"

/* Merges axes in place: those of length 1 go, neighbours along which all tensors go on alike become one. step[i]: of
 * tensor i, by axis. Returns how many axes are left, 0 for one element. */
int zt_axes_cuda(int axes, int64_t *dim, int tensors, int64_t (*step)[ZT_MAX_RANK]);

/* The copy of elements that lie at these steps, with as few axes as will do. */
struct zt_launch_strided_copy zt_strided_copy_cuda(int axes, const int64_t *dim, const int64_t *from,
                                                   const int64_t *to);

/* Steps of `of`, whose own are given, walked in `y`, right-aligned: 0 along stretched axes. */
void zt_steps_cuda(const struct zt_shape *y, const struct zt_shape *of, const int64_t *own, int64_t step[ZT_MAX_RANK]);

/* a and b broadcast to y, right-aligned. Axes of length 1 are dropped and neighbours that step as one are merged: two
 * tensors of one shape come out as one axis. */
struct zt_launch_walk zt_walk_cuda(const struct zt_shape *y, const struct zt_shape *a, const struct zt_shape *b);

#endif
