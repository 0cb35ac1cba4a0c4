/* What others ask of a Slice node. */
#ifndef ZT_OPS_MOVEMENT_SLICE_H
#define ZT_OPS_MOVEMENT_SLICE_H

#include "graph/ir/op.h"

/* Of every axis the elements start, start + step, ..., as many as the shape says. */
struct zt_stage_bounds {
    int64_t start[ZT_MAX_RANK], step[ZT_MAX_RANK];
    struct zt_shape shape;
};

bool zt_slice_read(const struct zt_graph *g, int node, struct zt_stage_bounds *to, struct zt_err *err);

#endif
