/* Pipeline schedules: the instruction list of a pipeline stage for one optimizer step, a pure function of
 * (micro-batches, stages, chunks, stage). The executor runs the list in order and knows no schedule by name; a schedule
 * is one row in schedule.c.
 *
 * Example: 4 stages, 8 micro-batches; a digit is the forward and a letter the backward (a = 0) of a micro-batch, and
 * backward takes as long as forward. Both schedules take 2 * (8 + 4 - 1) = 22 units, of which a stage is idle for 6:
 * the bubble is (S - 1) / (M + S - 1) = 3/11. They differ in the number of micro-batches in flight (slots):
 *
 *     1f1b                                                         slots
 *     stage 0   0 1 2 3 . . . a 4 b 5 c 6 d 7 e . f . g . h          4       warm-up: min(S - s, M) forwards
 *     stage 1   . 0 1 2 . . a 3 b 4 c 5 d 6 e 7 f . g . h .          3       steady: one backward, one forward
 *     stage 2   . . 0 1 . a 2 b 3 c 4 d 5 e 6 f 7 g . h . .          2       cool-down: the remaining backwards
 *     stage 3   . . . 0 a 1 b 2 c 3 d 4 e 5 f 6 g 7 h . . .          1
 *
 *     gpipe
 *     stage 0   0 1 2 3 4 5 6 7 . . . . . . a b c d e f g h          8       all forwards, then all backwards
 *     stage 1   . 0 1 2 3 4 5 6 7 . . . . a b c d e f g h .          8
 *     stage 2   . . 0 1 2 3 4 5 6 7 . . a b c d e f g h . .          8
 *     stage 3   . . . 0 1 2 3 4 5 6 7 a b c d e f g h . . .          8
 *
 * A forward is LOAD (first and last stage), RECV_ACT, FORWARD, SEND_ACT; a backward is RECV_GRAD, BACKWARD, SEND_GRAD;
 * the step ends with REDUCE CLIP STEP GATHER. Every schedule runs backwards in the order 0, 1, 2, ..., so gradients are
 * added in the same order and schedules agree bit for bit.
 *
 * A list may split a backward (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024): BACKWARD_INPUT computes the
 * gradient that SEND_GRAD sends, and BACKWARD_WEIGHT, at any later time, the parameter gradients that REDUCE needs; the
 * slot is in use until both and the send are done. zt_schedule_check(), the simulation and their tests support such
 * lists. No schedule emits one yet, and the executor refuses them: its programs compute both halves in one pass, and
 * zt_cost_stage() leaves their costs empty.
 *
 * Deadlock: each send follows immediately the computation of its data, and each receive immediately precedes its use.
 * With receives that block, and sends that block at the ninth unreceived message of a pair (comm.h), every list
 * terminates; a test simulates this. */
#ifndef ZT_PARALLEL_SCHEDULE_SCHEDULE_H
#define ZT_PARALLEL_SCHEDULE_SCHEDULE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

enum zt_instruction_op {
    ZT_DO_LOAD,           /* loads the inputs and targets of this stage into the slot */
    ZT_DO_RECV_ACT,       /* from the previous stage, into the slot */
    ZT_DO_FORWARD,        /* fills the slot with the activations that backward needs */
    ZT_DO_SEND_ACT,       /* to the next stage */
    ZT_DO_RECV_GRAD,      /* from the next stage */
    ZT_DO_BACKWARD,       /* accumulates parameter gradients; the slot is free after SEND_GRAD, on stage 0 after this */
    ZT_DO_BACKWARD_INPUT, /* split backward: gradients of the received activations */
    ZT_DO_BACKWARD_WEIGHT, /* split backward: accumulates parameter gradients */
    ZT_DO_SEND_GRAD,       /* to the previous stage */
    ZT_DO_SCATTER,         /* mode dp: rank 0 sends each replica its rows of the inputs */
    ZT_DO_GATHER_ACT,      /* mode dp: replicas send the inputs of the loss to rank 0's loss slot */
    ZT_DO_SCATTER_GRAD,    /* mode dp: rank 0 sends the gradients back */
    ZT_DO_REDUCE,          /* gradients over the data-parallel ranks of the stage */
    ZT_DO_CLIP,            /* norm over all ranks, overflow check, clipping factor */
    ZT_DO_STEP,            /* optimizer on the owned slices */
    ZT_DO_GATHER,          /* parameters over the data-parallel ranks of the stage */
    ZT_INSTRUCTION_OPS
};

struct zt_instruction {
    enum zt_instruction_op op;
    int micro_batch; /* -1 from REDUCE on */
    int chunk;       /* model part of the stage, 0 if there is one; mode dp: 1 is the loss */
    int slot;        /* activation memory, 0..slots-1; -1 from REDUCE on */
};

struct zt_schedule {
    int slots; /* maximum number of micro-batches in flight */
    int count;
    const struct zt_instruction *at;
};

struct zt_schedule_shape {
    int micro_batches; /* of one optimizer step (gradient accumulation), at least 1 */
    int stages, chunks;
    int stage; /* 0..stages-1 */
};

/* Creates the list of schedule `name` ("1f1b", "gpipe") in `arena`. With one stage, every schedule is LOAD FORWARD
 * BACKWARD for each micro-batch in one slot. Errors: unknown name, shape out of range, unsupported number of chunks. */
bool zt_schedule_make(struct zt_arena *arena, const char *name, const struct zt_schedule_shape *shape,
                      struct zt_schedule *schedule, struct zt_err *err);

/* Mode dp: replicas run chunk 0 on their rows of a micro-batch; rank 0 runs chunk 1, the loss, on all rows, in slot 1.
 *
 *     rank 0    LOAD.1 SCATTER FORWARD GATHER_ACT FORWARD.1 BACKWARD.1 SCATTER_GRAD BACKWARD
 *     others           SCATTER FORWARD GATHER_ACT                      SCATTER_GRAD BACKWARD
 *
 * `training` false: forwards only, nothing at the end. */
bool zt_schedule_make_replicas(struct zt_arena *arena, int micro_batches, bool first, bool training,
                               struct zt_schedule *schedule, struct zt_err *err);

/* Evaluation: forwards only, one slot, nothing at the end. */
bool zt_schedule_make_forward(struct zt_arena *arena, const struct zt_schedule_shape *shape,
                              struct zt_schedule *schedule, struct zt_err *err);

/* Checks that a training list of one chunk has every instruction once per micro-batch and after its dependencies:
 * FORWARD, then a whole or split backward, SEND_GRAD after the gradient it sends, REDUCE after all. Errors name stage,
 * instruction and micro-batch. */
bool zt_schedule_check(const struct zt_schedule *schedule, const struct zt_schedule_shape *shape, struct zt_err *err);

/* "RECV_ACT" */
const char *zt_instruction_name(enum zt_instruction_op op);

/* Appends the list as `ztrain plan` shows it, without a line end: "3 slots: <a0 F0 a0> ... REDUCE CLIP STEP GATHER".
 * L: load, F: forward, B: backward (split: I inputs, W weights), <a and a>: activations received and sent, <g and g>:
 * gradients received and sent, S G D: scatter and gather of mode dp (.1: the loss). The middle of a long list is
 * replaced by its length. */
void zt_schedule_print(struct zt_text *to, const struct zt_schedule *schedule);

#endif
