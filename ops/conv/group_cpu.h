/* Convolutions of narrow groups by the kernels of simd_group.h. oneDNN 2.6 has no kernel for groups that share a vector
 * of channels, and a slow one for weight gradients of depthwise kernels of 7 x 7. Activations are blocked by the
 * machine's vectors, weights are plain. */
#ifndef ZT_OPS_CONV_GROUP_CPU_H
#define ZT_OPS_CONV_GROUP_CPU_H

#include "ops/elementwise/activation_cpu.h"
#include "ops/conv/conv_cpu.h"

struct zt_conv_group;
/* Whether the convolution qualifies: 1 or 2 axes, as many input as output channels, groups of 1 (depthwise) to 8
 * channels that divide a vector, at most ZT_GROUP_TAPS taps, and of a single group whole vectors. */
bool zt_conv_group_fits(const struct zt_conv *c);
/* Creates the kernel of a convolution in the arena; NULL where it does not qualify, is not of float, or has planes or
 * strides that are too large. */
const struct zt_conv_group *zt_conv_group_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_dtype dtype,
                                               enum zt_conv_direction direction);
/* The layout of x and y. */
const struct zt_layout *zt_conv_group_layout(const struct zt_conv_group *g, struct zt_arena *arena,
                                             const struct zt_shape *shape);
/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_conv_group_bytes(const struct zt_conv_group *g, int threads);

/* Arguments of ZT_CONV_TO_Y and ZT_CONV_TO_X: computes `to` from `from`. bias [channels] may be NULL; relu: max(to, 0).
 * `activated` receives the activation of `to` and may be `to`. */
struct zt_conv_group_planes {
    const float *from, *weight, *bias;
    float *to, *activated;
    bool relu;
    struct zt_activation activation; /* run NULL: none */
};
void zt_conv_group_run(const struct zt_conv_group *g, const struct zt_conv_group_planes *planes, void *workspace,
                       int threads);
/* Runs ZT_CONV_TO_W. */
void zt_conv_group_weight_gradient(const struct zt_conv_group *g, const struct zt_planes_weights *weights,
                                   void *workspace, int threads);

#endif
