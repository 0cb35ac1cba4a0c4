/* Sliding windows of convolutions and pools as kernels take them (window_cuda.h makes them, window.cuh walks them). */
#ifndef ZT_OPS_CUDA_LAUNCH_WINDOW_H
#define ZT_OPS_CUDA_LAUNCH_WINDOW_H

#include "graph/ir/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_LAUNCH_AXES = 3 };
/* Members as in struct zt_window of ops/kernel/window.h. A window of fewer axes has leading axes of length 1. */
struct zt_launch_window {
    int64_t in[ZT_LAUNCH_AXES], out[ZT_LAUNCH_AXES], kernel[ZT_LAUNCH_AXES];
    int64_t stride[ZT_LAUNCH_AXES], dilation[ZT_LAUNCH_AXES], pad[ZT_LAUNCH_AXES], pad_end[ZT_LAUNCH_AXES];
};

#ifdef __cplusplus
}
#endif

#endif
