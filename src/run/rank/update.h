/* What follows the micro-batches of a step: weights of several stages, the norm and its clipping, the optimizer. */
#ifndef ZT_RUN_RANK_UPDATE_H
#define ZT_RUN_RANK_UPDATE_H

#include "run/rank/blocks.h"

/* Weights held on several stages: adds the copies' gradients at home; brings the new weights to the copies. */
bool zt_rank_tie_gradients(struct zt_rank *r, struct zt_err *err);
bool zt_rank_tie_weights(struct zt_rank *r, struct zt_err *err);
/* The gradient's norm and the loss over all ranks, and the factor that clips it (r->grad_scale). Collective; what
 * signals ask for travels in the same reduction. */
bool zt_rank_clip(struct zt_rank *r, struct zt_err *err);
/* The optimizer step on the slices that this rank owns. */
bool zt_rank_update(struct zt_rank *r, struct zt_err *err);

#endif
