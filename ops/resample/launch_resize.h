/* Launcher of resize.cu: Resize, Upsample and their gradient as sparse weights along each axis. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_RESAMPLE_LAUNCH_RESIZE_H
#define ZT_OPS_RESAMPLE_LAUNCH_RESIZE_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[o] = sum over t of weight[0][t_0] ... weight[rank - 1][t_(rank - 1)] * x[index[0][t_0], ..., index[rank - 1][...]]
 * with begin[k][o_k] <= t_k < begin[k][o_k + 1]. y[o] = fill where an axis has no t. Maps are in device memory. */
struct zt_launch_resize {
    int rank;
    int64_t from[ZT_MAX_RANK], to[ZT_MAX_RANK]; /* shapes of x and y */
    const int32_t *begin[ZT_MAX_RANK], *index[ZT_MAX_RANK];
    const float *weight[ZT_MAX_RANK];
    float fill;
};
int zt_launch_resize(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_resize *resize,
                     const void *x, void *y);

#ifdef __cplusplus
}
#endif

#endif
