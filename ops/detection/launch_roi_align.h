/* Launchers of roi_align.cu: RoiAlign and its gradient (ops/detection/roi_align.c). Conventions: ops/cuda/launch.h. A
 * roi whose batch index is outside of the batch gives NaN, and no gradient. */
#ifndef ZT_OPS_DETECTION_LAUNCH_ROI_ALIGN_H
#define ZT_OPS_DETECTION_LAUNCH_ROI_ALIGN_H

#include "ops/cuda/launch.h"
#include "ops/detection/roi_samples.h"

#ifdef __cplusplus
extern "C" {
#endif

/* batch: int64. */
int zt_launch_roi_align(struct CUstream_st *stream, const struct zt_roi_align *r, struct zt_launch_tensor x,
                        struct zt_launch_tensor rois, const void *batch, struct zt_launch_tensor y);
/* x: mode max and drois, which may be absent. */
struct zt_launch_roi_grad {
    struct zt_launch_tensor dy, rois, x, dx, drois;
    const void *batch;
};
int zt_launch_roi_align_grad(struct CUstream_st *stream, const struct zt_roi_align *r,
                             const struct zt_launch_roi_grad *g, void *workspace);
/* Mode max: the largest corner of a bin; corner: 4 times the number of its sample inside of the bin, and its own. */
struct zt_launch_roi_largest {
    int64_t pixel, corner; /* -1: none */
    float weight;
};
static inline size_t zt_launch_roi_align_grad_bytes(const struct zt_roi_align *r) {
    return r->max ? (size_t)(r->rois * r->c * r->out[0] * r->out[1]) * sizeof(struct zt_launch_roi_largest) : 0;
}

#ifdef __cplusplus
}
#endif

#endif
