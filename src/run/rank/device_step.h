/* The step of a rank on a device: each function queues its part and none waits, but for other ranks. */
#ifndef ZT_RUN_RANK_DEVICE_STEP_H
#define ZT_RUN_RANK_DEVICE_STEP_H

#include "run/rank/blocks.h"

bool zt_rank_stepping_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_stepping_destroy(struct zt_rank *r);
bool zt_rank_stepping_begin(struct zt_rank *r, bool tail, struct zt_err *err); /* tail: the last of an epoch */
/* Before the forward phase of a micro-batch with a loss: scales its seed where the loss is scaled. */
bool zt_rank_stepping_seed(struct zt_rank *r, const struct zt_slot *slot, struct zt_err *err);
/* Adds a micro-batch's loss, which lies in the rank's memory; that of the last one with the norm. */
bool zt_rank_stepping_loss(struct zt_rank *r, const struct zt_slot *slot, const float *loss, bool last,
                           struct zt_err *err);
/* Of several ranks r->scalars holds the requests already, and their sums afterwards. */
bool zt_rank_stepping_clip(struct zt_rank *r, struct zt_err *err);
bool zt_rank_stepping_update(struct zt_rank *r, struct zt_err *err);
bool zt_rank_stepping_end(struct zt_rank *r, struct zt_err *err);
/* Waits for the oldest step that was ended and not read: its loss, norm, rate and whether it was finite. */
bool zt_rank_stepping_read(struct zt_rank *r, struct zt_step_result *result, struct zt_err *err);

#endif
