/* Execution of the instructions of a schedule. */
#ifndef ZT_RUN_RANK_INSTRUCT_H
#define ZT_RUN_RANK_INSTRUCT_H

#include "data/loader.h"
#include "run/rank/blocks.h"

/* The context of an instruction: the micro-batches of a step or of an evaluation. */
struct zt_instruction_context {
    struct zt_loader *loader;
    const struct zt_source *source;
    const struct zt_step_shape *shape;
    bool training;
};

/* Executes one instruction `at`. */
bool zt_rank_instruct(struct zt_rank *r, const struct zt_instruction_context *t, const struct zt_instruction *at,
                      struct zt_err *err);

/* Returns the program of chunk `chunk` for a micro-batch of the step; NULL: the chunk has none. */
const struct zt_program *zt_instruction_program(const struct zt_rank *r, const struct zt_instruction_context *t,
                                                int chunk, int micro_batch);
/* Reads a float scalar of the slot; 0 if `value` is -1. */
bool zt_rank_read_scalar(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, int value,
                         double *to, struct zt_err *err);

/* Brings new weights to the ranks that have copies of them. Collective. */
bool zt_rank_share_weights(struct zt_rank *r, struct zt_err *err);

#endif
