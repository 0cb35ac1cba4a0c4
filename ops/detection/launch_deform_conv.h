/* Launchers of deform_conv.cu: the parts of DeformConv beside its matrix products (ops/detection/deform_conv.c).
 * Conventions: ops/cuda/launch.h. A position that is not a number gives NaN. */
#ifndef ZT_OPS_DETECTION_LAUNCH_DEFORM_CONV_H
#define ZT_OPS_DETECTION_LAUNCH_DEFORM_CONV_H

#include "ops/cuda/launch.h"
#include "ops/movement/launch_gather.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_LAUNCH_DEFORM_AXES = 3 };

/* Sizes as struct zt_deform_conv has them (deform_conv.h): pixels of a plane of x, places of one of y. */
struct zt_launch_deform {
    int axes;
    int64_t n, c, m, groups, offset_groups, pixels, places, kernel_elems;
    int64_t in[ZT_LAUNCH_DEFORM_AXES], out[ZT_LAUNCH_DEFORM_AXES], kernel[ZT_LAUNCH_DEFORM_AXES];
    int64_t stride[ZT_LAUNCH_DEFORM_AXES], dilation[ZT_LAUNCH_DEFORM_AXES], pad[ZT_LAUNCH_DEFORM_AXES];
};
/* Samples first .. first + count - 1. */
struct zt_launch_samples {
    int64_t first, count;
};

/* columns[c, kernel, sample, place] of some samples, in the dtype of x. mask: may be absent. */
struct zt_launch_deform_tensors {
    struct zt_launch_tensor x, offset, mask, columns;
};
int zt_launch_deform_columns(struct CUstream_st *stream, const struct zt_launch_deform *d,
                             struct zt_launch_samples samples, const struct zt_launch_deform_tensors *t);
/* y[n, m, place] = bias[m]; 0 without a bias. */
int zt_launch_deform_bias(struct CUstream_st *stream, const struct zt_launch_deform *d, struct zt_launch_tensor bias,
                          struct zt_launch_tensor y);
/* to[m, sample, place] = dy[sample, m, place] of some samples. */
int zt_launch_deform_rows(struct CUstream_st *stream, const struct zt_launch_deform *d,
                          struct zt_launch_samples samples, struct zt_launch_tensor dy, struct zt_launch_tensor to);
/* doffset and dmask of some samples; t->columns: the gradient of the columns. Each may be absent. */
int zt_launch_deform_taps_grad(struct CUstream_st *stream, const struct zt_launch_deform *d,
                               struct zt_launch_samples samples, const struct zt_launch_deform_tensors *t,
                               struct zt_launch_tensor doffset, struct zt_launch_tensor dmask);
/* dx of some samples. A pixel adds up what reads it in the order of taps and places: corners of taps are sorted by
 * pixel in the workspace, once for the channels of an offset group. */
int zt_launch_deform_image_grad(struct CUstream_st *stream, const struct zt_launch_deform *d,
                                struct zt_launch_samples samples, const struct zt_launch_deform_tensors *t,
                                struct zt_launch_tensor dx, struct zt_launch_room room);
/* Bytes of the workspace for `samples` samples. */
size_t zt_launch_deform_image_grad_bytes(const struct zt_launch_deform *d, int64_t samples);

#ifdef __cplusplus
}
#endif

#endif
