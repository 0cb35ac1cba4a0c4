/* Resuming from a checkpoint. */
#ifndef ZT_CHECKPOINT_LOAD_H
#define ZT_CHECKPOINT_LOAD_H

#include "checkpoint/state.h"

/* Checks the checkpoint c->o.from and loads it: weights, statistics, optimizer, counters, best evaluation. Collective.
 */
bool zt_checkpoint_load(struct zt_checkpoints *c, struct zt_err *err);

#endif
