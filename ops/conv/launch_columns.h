/* Launchers of columns.cu: Im2Col and Col2Im. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_CONV_LAUNCH_COLUMNS_H
#define ZT_OPS_CONV_LAUNCH_COLUMNS_H

#include "ops/cuda/launch.h"
#include "ops/cuda/launch_window.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Image [planes, window.in], columns [planes, window.kernel, window.out]. */
struct zt_launch_columns {
    int64_t planes;
    struct zt_launch_window window;
};
/* y columns of the image x; 0 in the padding. */
int zt_launch_im2col(struct CUstream_st *stream, const struct zt_launch_columns *c, struct zt_launch_tensor x,
                     struct zt_launch_tensor y);
/* y image of the columns x: sums of the elements that share a place. */
int zt_launch_col2im(struct CUstream_st *stream, const struct zt_launch_columns *c, struct zt_launch_tensor x,
                     struct zt_launch_tensor y);

#ifdef __cplusplus
}
#endif

#endif
