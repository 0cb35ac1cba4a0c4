/* Layouts of activations on the CPU (layout.h), for kernels that work on vectors of channels. */
#ifndef ZT_OPS_CPU_BLOCKED_LAYOUT_H
#define ZT_OPS_CPU_BLOCKED_LAYOUT_H

#include "ops/kernel/layout.h"

/* The layout in which kernels that work on vectors of channels take a tensor whose producer gives `given`: that one
 * where whole vectors of channels lie side by side in it, else blocked. */
const struct zt_layout *zt_layout_vector(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                         const struct zt_shape *shape);

/* How channels lie: channel group g (of `lanes` channels) of sample n at pixel p is at n * sample + g * group + p *
 * pixel elements, its lanes next to each other. Plain tensors have one lane. Channels last: groups of 16, the last may
 * be short. */
struct zt_planes {
    int64_t samples, channels, pixels; /* pixels: of a plane */
    int lanes;
    int64_t groups, sample, group, pixel;
};
void zt_planes_of(const struct zt_layout *layout, const struct zt_shape *shape, struct zt_planes *to);

#endif
