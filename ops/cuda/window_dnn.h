/* Windows over planes, as cuDNN is told of them. Knows no header of cuDNN. */
#ifndef ZT_OPS_CUDA_WINDOW_DNN_H
#define ZT_OPS_CUDA_WINDOW_DNN_H

#include "ops/cuda/dnn_cuda.h"
#include "ops/kernel/window.h"

/* Up to ZT_DNN_AXES axes; one is taken for two, the first of length 1. Padding behind is what gives as many results. */
struct zt_dnn_window zt_window_dnn(const struct zt_window *w);
/* [first, second, plane], plane of as many axes, row-major or with the second axis innermost (last). */
struct zt_dnn_tensor zt_planes_dnn(enum zt_dtype dtype, bool last, int64_t first, int64_t second, const int64_t *plane,
                                   int axes);

#endif
