/* What the losses share. */
#ifndef ZT_OPS_LOSS_LOSS_H
#define ZT_OPS_LOSS_LOSS_H

#include "graph/ir/op.h"

/* A loss weighs samples, or what a sample holds: the weight's shape is that of the target's first axes ([N] or [N, T]
 * for targets [N, T]; one number for all has rank 0). So weight k is that of the targets k * each to k * each + each -
 * 1, where each is the number of targets over that of weights. NULL, no weight, fits. */
bool zt_loss_weight_fits(const struct zt_graph *g, int node, const struct zt_value *weight,
                         const struct zt_shape *target, struct zt_err *err);

#endif
