/* Weight gradients of convolutions over three spatial axes by the kernel of simd_weight_gradient_3d.h, where oneDNN 2.6
 * unfolds x in plain order. x and dy are in blocks of 8 channels, dw is plain. */
#ifndef ZT_OPS_CONV_WEIGHT_GRADIENT_3D_CPU_H
#define ZT_OPS_CONV_WEIGHT_GRADIENT_3D_CPU_H

#include "ops/conv/conv_cpu.h"

struct zt_conv_weight_gradient;
/* Creates the kernel of a convolution in the arena; NULL where the convolution does not qualify: float, three axes, one
 * group, whole blocks of channels. */
const struct zt_conv_weight_gradient *zt_conv_weight_gradient_make(struct zt_arena *arena, const struct zt_conv *c,
                                                                   enum zt_dtype dtype);
/* The layout of x and dy. */
const struct zt_layout *zt_conv_weight_gradient_layout(struct zt_arena *arena, const struct zt_shape *shape);
/* Workspace bytes of a run. */
size_t zt_conv_weight_gradient_bytes(const struct zt_conv_weight_gradient *w);

/* Computes dw [M, C, k, k, k], plain, and the bias gradient if `weights` has one, from x and dy in the layout above.
 * `workspace` has the bytes above, aligned to 64. The bits do not depend on `threads`. */
void zt_conv_weight_gradient_run(const struct zt_conv_weight_gradient *w, const struct zt_planes_weights *weights,
                                 void *workspace, int threads);

#endif
