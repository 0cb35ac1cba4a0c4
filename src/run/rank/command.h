/* Execution of the commands of a program: nodes, gradients, and the collectives between them. */
#ifndef ZT_RUN_RANK_COMMAND_H
#define ZT_RUN_RANK_COMMAND_H

#include "run/rank/blocks.h"

/* The micro-batch that a command is part of. */
struct zt_command_context {
    const struct zt_run_program *program; /* NULL: a command after the step */
    struct zt_slot *slot;                 /* NULL: no micro-batch */
    bool accumulate;                      /* add to the existing gradients */
    bool last;                            /* last micro-batch of a step */
};
/* Runs one command of a program. */
bool zt_rank_command(struct zt_rank *r, const struct zt_command_context *at, const struct zt_command *c,
                     struct zt_err *err);

#endif
