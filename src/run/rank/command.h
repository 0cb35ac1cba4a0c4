/* The commands of a program: nodes, gradients, and the collectives between them. */
#ifndef ZT_RUN_RANK_COMMAND_H
#define ZT_RUN_RANK_COMMAND_H

#include "run/rank/blocks.h"

/* Runs one command. `accumulate`: gradients are added to what is there; `last`: in the last micro-batch of a step. */
bool zt_rank_command(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot,
                     const struct zt_command *c, bool accumulate, bool last, struct zt_err *err);

#endif
