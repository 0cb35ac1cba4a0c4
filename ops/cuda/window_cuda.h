/* Sliding windows as kernels take them. Missing axes are in front and have length 1. */
#ifndef ZT_OPS_CUDA_WINDOW_CUDA_H
#define ZT_OPS_CUDA_WINDOW_CUDA_H

#include "ops/cuda/launch_window.h"
#include "ops/kernel/window.h"

/* w has at most ZT_LAUNCH_AXES axes. */
struct zt_launch_window zt_window_cuda(const struct zt_window *w);

#endif
