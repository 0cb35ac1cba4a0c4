/* Convolutions of planes as lines (simd/simd_lines.h): of few channels on both sides, of groups whose channels fill no
 * vectors, and of long kernels. 1 or 2 axes, stride 1; x, y, weights and gradients are plain. */
#ifndef ZT_OPS_CONV_LINES_CPU_H
#define ZT_OPS_CONV_LINES_CPU_H

#include "ops/conv/conv.h"
#include "ops/cpu/blocked_layout.h"

struct zt_lines;
/* Whether the convolution fits and no other kernel is faster. */
bool zt_lines_fits(const struct zt_conv *c, enum zt_conv_direction direction);
/* In the arena; NULL where it does not fit or other kernels are faster. */
const struct zt_lines *zt_lines_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_conv_direction direction);

/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_lines_bytes(const struct zt_lines *l, int threads);

/* to y, to x */
struct zt_lines_data {
    const float *from, *w, *bias; /* bias NULL: none */
    float *to;
    bool relu; /* max(to, 0), NaN stays */
};
/* The bits do not depend on `threads`, here and below. */
void zt_lines_run(const struct zt_lines *l, const struct zt_lines_data *data, void *workspace, int threads);
void zt_lines_weight_gradient(const struct zt_lines *l, const struct zt_planes_weights *data, void *workspace,
                              int threads);

#endif
