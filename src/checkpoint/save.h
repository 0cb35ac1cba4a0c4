/* Saving a checkpoint. */
#ifndef ZT_CHECKPOINT_SAVE_H
#define ZT_CHECKPOINT_SAVE_H

#include "checkpoint/state.h"

/* Writes checkpoints/step-N and makes it the latest. Collective. */
bool zt_checkpoint_save(struct zt_checkpoints *c, int64_t step, struct zt_console *console, struct zt_err *err);

#endif
