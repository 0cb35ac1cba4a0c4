/* Weight gradients of convolutions over three spatial axes by the kernel of simd_weight_gradient.h, where oneDNN 2.6
 * would unfold x in plain order. x and dy lie in blocks of 8 channels, dw is plain. */
#ifndef ZT_OPS_CONV_WEIGHT_GRADIENT_CPU_H
#define ZT_OPS_CONV_WEIGHT_GRADIENT_CPU_H

#include "ops/conv/conv_cpu.h"

struct zt_conv_weight_gradient;
/* Made in the arena; NULL where the convolution is another one: float, three axes, one group, whole blocks of channels.
 */
const struct zt_conv_weight_gradient *zt_conv_weight_gradient_make(struct zt_arena *arena, const struct zt_conv *c,
                                                                   enum zt_dtype dtype);
/* How x and dy lie. */
const struct zt_layout *zt_conv_weight_gradient_layout(struct zt_arena *arena, const struct zt_shape *shape);
/* Workspace of a run. */
size_t zt_conv_weight_gradient_bytes(const struct zt_conv_weight_gradient *w);

void zt_conv_weight_gradient_run(const struct zt_conv_weight_gradient *w, const struct zt_conv_weights *weights,
                                 void *workspace, int threads);

#endif
