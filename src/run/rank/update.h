/* The update after the micro-batches of a step: gradients of tied weights, norm and clipping, the optimizer. */
#ifndef ZT_RUN_RANK_UPDATE_H
#define ZT_RUN_RANK_UPDATE_H

#include "run/rank/blocks.h"

/* Tied weights of several stages: adds the copies' gradients on the home stage; sends the new weights to the copies. */
bool zt_rank_tie_gradients(struct zt_rank *r, struct zt_err *err);
bool zt_rank_tie_weights(struct zt_rank *r, struct zt_err *err);
/* Computes the gradient norm and the loss over all ranks, and the clipping factor (r->grad_scale). Collective; the same
 * reduction carries the requests of signals. */
bool zt_rank_clip(struct zt_rank *r, struct zt_err *err);
/* Runs the optimizer on the slices that this rank owns. */
bool zt_rank_update(struct zt_rank *r, struct zt_err *err);

#endif
