/* Slice and Pad: the elements that a node selects, and how many it adds. */
#ifndef ZT_OPS_MOVEMENT_SLICE_H
#define ZT_OPS_MOVEMENT_SLICE_H

#include "graph/ir/op.h"

/* Along axis a the elements start[a], start[a] + step[a], ..., shape.dim[a] of them. */
struct zt_slice_bounds {
    int64_t start[ZT_MAX_RANK], step[ZT_MAX_RANK];
    struct zt_shape shape;
};

/* Reads starts, ends, axes and steps, which must be known (zt_known_ints), clamped as ONNX Slice (opset 13) says.
 * Errors name the node: lists of different lengths, an axis twice, a step of 0. */
bool zt_slice_read(const struct zt_graph *g, int node, struct zt_slice_bounds *to, struct zt_err *err);

/* Whether a resolved Pad adds zeros, or takes elements away, at the ends of its axes: `front` and `behind` get their
 * numbers by axis, negative where elements go. */
bool zt_pad_reads_zeros(const struct zt_graph *g, int node, int64_t front[ZT_MAX_RANK], int64_t behind[ZT_MAX_RANK]);

#endif
