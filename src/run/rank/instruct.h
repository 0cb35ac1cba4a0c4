/* The instructions of a schedule, one at a time. */
#ifndef ZT_RUN_RANK_INSTRUCT_H
#define ZT_RUN_RANK_INSTRUCT_H

#include "data/loader.h"
#include "run/rank/blocks.h"

/* What instructions run on: the micro-batches of a step, or one of an evaluation. */
struct zt_instruction_context {
    struct zt_loader *loader;
    const struct zt_source *source;
    const struct zt_step_shape *shape;
    bool training;
};

bool zt_rank_instruct(struct zt_rank *r, const struct zt_instruction_context *t, const struct zt_instruction *at,
                      struct zt_err *err);

/* What chunk `chunk` runs for the last micro-batch of the turn, or another; NULL: nothing. */
const struct zt_program *zt_instruction_program(const struct zt_rank *r, const struct zt_instruction_context *t,
                                                int chunk, bool last);
/* A float scalar of the slot, 0 where `value` is -1. */
bool zt_rank_read_scalar(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, int value,
                         double *to, struct zt_err *err);

#endif
