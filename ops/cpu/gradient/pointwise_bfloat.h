/* The same as pointwise.h for x and dy of bfloat16, by products of bfloat16 that are added in float. */
#ifndef ZT_OPS_CPU_GRADIENT_POINTWISE_BFLOAT_H
#define ZT_OPS_CPU_GRADIENT_POINTWISE_BFLOAT_H

#include "ops/cpu/gradient/pointwise.h"

struct zt_pointwise_bfloat;
/* In the arena; NULL with few channels, many sums for few places, and on machines without products of bfloat16. */
const struct zt_pointwise_bfloat *zt_pointwise_bfloat_make(struct zt_arena *arena, const struct zt_pointwise *p);

/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_pointwise_bfloat_bytes(const struct zt_pointwise_bfloat *w, int threads);
/* The bits do not depend on `threads`. */
void zt_pointwise_bfloat_run(const struct zt_pointwise_bfloat *w, const struct zt_planes_weights *data, void *workspace,
                             int threads);

#endif
