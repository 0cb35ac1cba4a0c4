/* Broadcasting for launchers: shapes to steps, with as few axes as will do. */
#ifndef ZT_OPS_WALK_CUDA_H
#define ZT_OPS_WALK_CUDA_H

#include "ops/launch_cuda.h"

/* a and b broadcast to y, right-aligned. Axes of length 1 are dropped and neighbours that step as one are merged: two
 * tensors of one shape come out as one axis. */
struct zt_launch_walk zt_walk_cuda(const struct zt_shape *y, const struct zt_shape *a, const struct zt_shape *b);

#endif
