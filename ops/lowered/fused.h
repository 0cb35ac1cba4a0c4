/* Nodes that end with an activation. */
#ifndef ZT_OPS_LOWERED_FUSED_H
#define ZT_OPS_LOWERED_FUSED_H

#include "ops/lowered/lowering.h"

/* Writes the node's result: the activation that its attributes `activation` and `activation_params` name, of `value`;
 * without one, `value`. */
void zt_lower_activation(struct zt_lowering *l, int value);

#endif
