/* RoiAlign: the geometry of a node, read from its shapes and attributes. Its kernels use it. */
#ifndef ZT_OPS_DETECTION_ROI_ALIGN_H
#define ZT_OPS_DETECTION_ROI_ALIGN_H

#include "graph/ir/op.h"
#include "ops/detection/roi_samples.h"

/* RoiAlign(x, rois, batch_indices) -> y */
bool zt_roi_align_read(const struct zt_graph *g, int node, struct zt_roi_align *to, struct zt_err *err);
/* ztrain.RoiAlignGrad(dy, rois, batch_indices[, x]) -> dx[, drois] with RoiAlign's attributes and input_shape, the
 * shape of x; mode "max" and drois need x */
bool zt_roi_align_grad_read(const struct zt_graph *g, int node, struct zt_roi_align *to, struct zt_err *err);

/* Fails where a batch index is outside of the batch. */
bool zt_roi_check_batch(const struct zt_call *call, const struct zt_roi_align *r, struct zt_err *err);
/* Axis `axis` of roi i. */
struct zt_roi_axis zt_roi_axis_of(const struct zt_roi_align *r, const struct zt_view *rois, int64_t i, int axis);

#endif
