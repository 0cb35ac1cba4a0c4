/* Launchers of conv.cu: direct convolutions for cases without a cuDNN engine. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_CONV_LAUNCH_CONV_H
#define ZT_OPS_CONV_LAUNCH_CONV_H

#include "ops/cuda/launch.h"
#include "ops/cuda/launch_window.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strides in elements of a tensor [first, second, places of a plane], row-major or channels last. */
struct zt_launch_steps {
    int64_t first, second, place;
};
/* x [n, c, window.in], w [m, c / groups, window.kernel], y [n, m, window.out]. */
struct zt_launch_conv {
    enum zt_dtype dtype;
    int64_t n, c, m, groups;
    struct zt_launch_window window;
    struct zt_launch_steps x, w, y;
};
/* Forward: y of x and w. */
int zt_launch_conv_to_y(struct CUstream_st *stream, const struct zt_launch_conv *conv, const void *x, const void *w,
                        void *y);
/* Data gradient: x of w and y. */
int zt_launch_conv_to_x(struct CUstream_st *stream, const struct zt_launch_conv *conv, void *x, const void *w,
                        const void *y);
/* Weight gradient: w of x and y. */
int zt_launch_conv_to_w(struct CUstream_st *stream, const struct zt_launch_conv *conv, const void *x, void *w,
                        const void *y);

#ifdef __cplusplus
}
#endif

#endif
