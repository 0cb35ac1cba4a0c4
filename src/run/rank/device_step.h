/* The optimizer step of a rank on a device. Each function queues its part; none waits, except for other ranks. */
#ifndef ZT_RUN_RANK_DEVICE_STEP_H
#define ZT_RUN_RANK_DEVICE_STEP_H

#include "optim/step.h"
#include "run/rank/blocks.h"

/* Allocates r->stepping; zt_rank_stepping_destroy() frees it. */
bool zt_rank_stepping_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_stepping_destroy(struct zt_rank *r);
/* Begins a step: writes the state or the table of coefficients to the device if necessary. */
bool zt_rank_stepping_begin(struct zt_rank *r, enum zt_step_kind kind, struct zt_err *err);
/* Called before the forward phase of a micro-batch with a loss: multiplies its gradient seed by the loss scale, if
 * there is one. */
bool zt_rank_stepping_seed(struct zt_rank *r, const struct zt_slot *slot, struct zt_err *err);
/* Adds the loss of a micro-batch, at `loss` in the rank's memory. The loss of the last micro-batch is added together
 * with the norm. */
bool zt_rank_stepping_loss(struct zt_rank *r, const struct zt_slot *slot, const float *loss, bool last,
                           struct zt_err *err);
/* Clips the gradient. With several ranks, r->scalars holds the requests before the call and their sums afterwards. */
bool zt_rank_stepping_clip(struct zt_rank *r, struct zt_err *err);
/* Waits for the state of the step behind zt_rank_stepping_clip(). All actions must be queued. */
bool zt_rank_stepping_state(struct zt_rank *r, struct zt_step_state *to, struct zt_err *err);
/* Queues the optimizer update of the pieces on the device. */
bool zt_rank_stepping_update(struct zt_rank *r, struct zt_err *err);
/* Queues the copy of the state to the host. */
bool zt_rank_stepping_end(struct zt_rank *r, struct zt_err *err);
/* Waits for the oldest step that has ended and was not read, and returns its loss, norm and learning rate and whether
 * they were finite. */
bool zt_rank_stepping_read(struct zt_rank *r, struct zt_step_result *result, struct zt_err *err);

/* Exchanges the weights and their average on the device. */
bool zt_rank_stepping_swap(struct zt_rank *r, struct zt_err *err);

/* The rates of the steps to come have changed. No step is begun and not ended. */
void zt_rank_stepping_rates(struct zt_rank *r);

#endif
