/* Launchers of Col2Im, Im2Col and MaxUnpool: what columns.cu gives columns_cuda.c. As launch_rows.h says. */
#ifndef ZT_OPS_CONV_LAUNCH_COLUMNS_H
#define ZT_OPS_CONV_LAUNCH_COLUMNS_H

#include "ops/cuda/launch.h"
#include "ops/cuda/launch_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Image [planes, window.in], columns [planes, window.kernel, window.out]. */
struct zt_launch_columns {
    int64_t planes;
    struct zt_launch_window window;
};
int zt_launch_im2col(struct CUstream_st *stream, const struct zt_launch_columns *c, struct zt_launch_tensor x,
                     struct zt_launch_tensor y);
int zt_launch_col2im(struct CUstream_st *stream, const struct zt_launch_columns *c, struct zt_launch_tensor x,
                     struct zt_launch_tensor y);

/* y, zeros but y[index] = x; of those with one index the last counts, one outside goes nowhere: a kernel cannot report
 * it. An index counts elements of the shape `inner`, which lies in the corner of y with a step an axis. Less than 2^31
 * elements. */
struct zt_launch_unpool {
    int axes;
    int64_t inner[ZT_MAX_RANK], step[ZT_MAX_RANK];
    int64_t elems, inner_elems, whole_elems; /* of x, of that shape, of y */
};
/* last: workspace of zeros, a number an element of y. */
int zt_launch_unpool(struct CUstream_st *stream, size_t bytes, const struct zt_launch_unpool *u, const void *x,
                     const int64_t *index, void *y, int32_t *last);
int zt_launch_unpool_grad(struct CUstream_st *stream, size_t bytes, const struct zt_launch_unpool *u, const void *dy,
                          const int64_t *index, void *dx);

#ifdef __cplusplus
}
#endif

#endif
