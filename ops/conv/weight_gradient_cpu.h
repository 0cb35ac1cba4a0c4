/* Weight gradients of convolutions over three spatial axes by the kernel of simd_weight_gradient.h, where oneDNN 2.6
 * would unfold x in plain order. x and dy lie in blocks of 8 channels, dw is plain. */
#ifndef ZT_OPS_CONV_WEIGHT_GRADIENT_CPU_H
#define ZT_OPS_CONV_WEIGHT_GRADIENT_CPU_H

#include "ops/conv/conv_cpu.h"

struct zt_conv_weigh;
/* Made in the arena; NULL where the convolution is another one: float, three axes, one group, whole blocks of channels.
 */
const struct zt_conv_weigh *zt_conv_weigh_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_dtype dtype);
/* How x and dy lie. */
const struct zt_layout *zt_conv_weigh_layout(struct zt_arena *arena, const struct zt_shape *shape);
/* Workspace of a run. */
size_t zt_conv_weigh_bytes(const struct zt_conv_weigh *w);

void zt_conv_weigh_run(const struct zt_conv_weigh *w, const struct zt_conv_weights *weights, void *workspace,
                       int threads);

#endif
