/* GridSample: the geometry of a node, read from its shapes and attributes. Its kernels use it. */
#ifndef ZT_OPS_RESAMPLE_GRID_SAMPLE_H
#define ZT_OPS_RESAMPLE_GRID_SAMPLE_H

#include "graph/ir/op.h"
#include "ops/resample/sample_taps.h"

/* x and grid are inputs `first` and `first` + 1: 0 for GridSample, 1 for ztrain.GridSampleGrad. */
bool zt_sampler_read(const struct zt_graph *g, int node, int first, struct zt_sampler *to, struct zt_err *err);
/* The taps of all axes at grid position `at`, counted over all samples. */
void zt_sampler_taps(const struct zt_sampler *s, const struct zt_view *grid, int64_t at, struct zt_sample_taps *to);

#endif
