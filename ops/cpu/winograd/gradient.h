/* Weight gradients of 3 x 3 to 6 x 6 convolutions, and of those of 3 x 3 and 4 x 4 with stride 2, by Winograd's
 * filtering (simd_winograd.h). x and dy lie in vectors of channels (zt_winograd_layout), the gradients are plain. */
#ifndef ZT_OPS_CPU_WINOGRAD_GRADIENT_H
#define ZT_OPS_CPU_WINOGRAD_GRADIENT_H

#include "ops/cpu/winograd/tiles.h"

struct zt_winograd_gradient;

/* The time of Winograd's filtering over that of the direct computation, 1 where it is not used: with few
 * channels, few tiles for many weights, or without fused multiply-add. */
double zt_winograd_gradient_share(const struct zt_winograd_conv *c);
/* In the arena; NULL where it is not used. */
const struct zt_winograd_gradient *zt_winograd_gradient_make(struct zt_arena *arena, const struct zt_winograd_conv *c);

/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_winograd_gradient_bytes(const struct zt_winograd_gradient *w, int threads);
void zt_winograd_gradient_run(const struct zt_winograd_gradient *w, const struct zt_planes_weights *data,
                              void *workspace, int threads);

#endif
