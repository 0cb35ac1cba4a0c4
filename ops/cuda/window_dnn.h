/* Sliding windows and tensors of planes as descriptions for cuDNN (dnn_cuda.h). Includes no header of cuDNN, so that
 * tests need no GPU. */
#ifndef ZT_OPS_CUDA_WINDOW_DNN_H
#define ZT_OPS_CUDA_WINDOW_DNN_H

#include "ops/cuda/dnn_cuda.h"
#include "ops/kernel/window.h"

/* w has at most ZT_DNN_AXES axes. One axis becomes two, the first of length 1. Padding behind is any that gives
 * w->out results. */
struct zt_dnn_window zt_window_dnn(const struct zt_window *w);
/* A tensor [first, second, plane], `plane` of `axes` axes: row-major, or with the second axis innermost (last). */
struct zt_dnn_tensor zt_planes_dnn(enum zt_dtype dtype, bool last, int64_t first, int64_t second, const int64_t *plane,
                                   int axes);

#endif
