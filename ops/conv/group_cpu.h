/* Convolutions of narrow groups by the kernels of simd_group.h, in place of a library's primitive: oneDNN 2.6 has none
 * for groups that share a vector of channels. Activations lie in blocks of the machine's vectors, weights are plain. */
#ifndef ZT_OPS_CONV_GROUP_CPU_H
#define ZT_OPS_CONV_GROUP_CPU_H

#include "ops/elementwise/activation_cpu.h"
#include "ops/conv/conv_cpu.h"

struct zt_conv_group;
/* Made in the arena; NULL where the convolution is another one: of 1 or 2 axes, float, as many channels in as out,
 * whole vectors of them, groups of 2 or more that divide a vector, not too many taps. */
const struct zt_conv_group *zt_conv_group_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_dtype dtype,
                                               enum zt_conv_direction direction);
/* How x and y lie. */
const struct zt_layout *zt_conv_group_layout(const struct zt_conv_group *g, struct zt_arena *arena,
                                             const struct zt_shape *shape);
/* Workspace of a run, to be aligned to 64. */
size_t zt_conv_group_bytes(const struct zt_conv_group *g, int threads);

/* ZT_CONV_TO_Y, ZT_CONV_TO_X: `to` from the other plane. bias [channels] may be NULL; relu: max(to, 0). `activated`,
 * which may be `to`, is the activation of it. */
struct zt_conv_group_planes {
    const float *from, *weight, *bias;
    float *to, *activated;
    bool relu;
    struct zt_activation activation; /* run NULL: none */
};
void zt_conv_group_run(const struct zt_conv_group *g, const struct zt_conv_group_planes *planes, void *workspace,
                       int threads);
/* ZT_CONV_TO_W. */
void zt_conv_group_weight_gradient(const struct zt_conv_group *g, const struct zt_conv_weights *weights,
                                   void *workspace, int threads);

#endif
