/* Weight gradients of 3 x 3 convolutions by Winograd's filtering (simd_winograd.h). x and dy lie in vectors of channels
 * (zt_winograd_layout), the gradients are plain. */
#ifndef ZT_OPS_CONV_WINOGRAD_GRADIENT_CPU_H
#define ZT_OPS_CONV_WINOGRAD_GRADIENT_CPU_H

#include "ops/conv/conv_cpu.h"
#include "ops/cpu/blocked_layout.h"

struct zt_winograd_gradient;

/* The time of Winograd's filtering over that of the direct computation, 1 where it is not used: where it does not fit
 * (zt_winograd_fits) or does not pay, with few channels, or few tiles for many weights. */
double zt_winograd_gradient_share(const struct zt_conv *c);
/* In the arena; NULL where it is not used. */
const struct zt_winograd_gradient *zt_winograd_gradient_make(struct zt_arena *arena, const struct zt_conv *c);

struct zt_winograd_gradient_planes {
    struct zt_planes x, dy;
};
/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_winograd_gradient_bytes(const struct zt_winograd_gradient *w, int threads);
void zt_winograd_gradient_run(const struct zt_winograd_gradient *w, const struct zt_winograd_gradient_planes *planes,
                              const struct zt_conv_weights *weights, void *workspace, int threads);

#endif
