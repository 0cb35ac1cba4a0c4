/* A convolution with a sum and an activation (com.microsoft FusedConv). */
#ifndef ZT_OPS_LOWERED_FUSED_H
#define ZT_OPS_LOWERED_FUSED_H

#include "ops/lowered/lowering.h"

/* Writes activation(Conv(input 0, w, input 2) + input 3) as the node's result, with its attributes, which are these. */
void zt_lower_fused_conv(struct zt_lowering *l, int w);
extern const struct zt_attr_spec zt_fused_conv_attrs[];

#endif
