/* Going on from a checkpoint. */
#ifndef ZT_CHECKPOINT_LOAD_H
#define ZT_CHECKPOINT_LOAD_H

#include "checkpoint/parts.h"

/* Checks the checkpoint in c->o.from and takes it over: weights, statistics, optimizer, counters, best evaluation. */
bool zt_checkpoint_load(struct zt_checkpoints *c, struct zt_err *err);

#endif
