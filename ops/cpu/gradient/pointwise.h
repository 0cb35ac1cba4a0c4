/* Weight gradients of convolutions whose kernel has one element, with stride 1 and without padding: dw[m][c] is the sum
 * over places of dy[m] x[c]. x and dy lie in vectors of channels, the gradients are plain. */
#ifndef ZT_OPS_CPU_GRADIENT_POINTWISE_H
#define ZT_OPS_CPU_GRADIENT_POINTWISE_H

#include "ops/cpu/blocked_layout.h"

struct zt_pointwise {
    int64_t samples, places;   /* of the batch; of a plane */
    int64_t channels, results; /* channels of x and of dy */
};

struct zt_pointwise_gradient;
/* In the arena; NULL with few channels, and without fused multiply-add. */
const struct zt_pointwise_gradient *zt_pointwise_gradient_make(struct zt_arena *arena, const struct zt_pointwise *p);

/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_pointwise_gradient_bytes(const struct zt_pointwise_gradient *w);
/* The bits do not depend on `threads`. */
void zt_pointwise_gradient_run(const struct zt_pointwise_gradient *w, const struct zt_planes_weights *data,
                               void *workspace, int threads);

#endif
