/* What a pipeline stage does in one optimizer step, as a list of instructions: a pure function of (micro-batches,
 * stages, chunks, stage). The executor runs the list in order and knows no schedule by name; a schedule is one row in
 * schedule.c.
 *
 * Example: 4 stages, 8 micro-batches, a digit the forward and a letter the backward (a = 0) of a micro-batch, backward
 * as long as forward. Both take 2 * (8 + 4 - 1) = 22 units, of which a stage idles 6: bubble (S - 1) / (M + S - 1) =
 * 3/11. They differ in how many activations a stage holds at once (slots):
 *
 *     1f1b                                                         slots
 *     stage 0   0 1 2 3 . . . a 4 b 5 c 6 d 7 e . f . g . h          4       warm-up: min(S - s, M) forwards
 *     stage 1   . 0 1 2 . . a 3 b 4 c 5 d 6 e 7 f . g . h .          3       steady: one backward, one forward
 *     stage 2   . . 0 1 . a 2 b 3 c 4 d 5 e 6 f 7 g . h . .          2       cool-down: the backwards that are left
 *     stage 3   . . . 0 a 1 b 2 c 3 d 4 e 5 f 6 g 7 h . . .          1
 *
 *     gpipe
 *     stage 0   0 1 2 3 4 5 6 7 . . . . . . a b c d e f g h          8       all forwards, then all backwards
 *     stage 1   . 0 1 2 3 4 5 6 7 . . . . a b c d e f g h .          8
 *     stage 2   . . 0 1 2 3 4 5 6 7 . . a b c d e f g h . .          8
 *     stage 3   . . . 0 1 2 3 4 5 6 7 a b c d e f g h . . .          8
 *
 * A forward is LOAD (first and last stage), RECV_ACT, FORWARD, SEND_ACT; a backward RECV_GRAD, BACKWARD, SEND_GRAD; the
 * step ends with REDUCE CLIP STEP GATHER. Backwards run in the order 0, 1, 2, ... under every row, so that gradients
 * are added in one order and schedules agree bit for bit.
 *
 * A list may split a backward (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024): BACKWARD_INPUT makes what
 * SEND_GRAD waits for, BACKWARD_WEIGHT the parameter gradients that REDUCE waits for, any time later; a slot is held
 * until both and the send are done. zt_schedule_check(), the simulation and their tests take such lists and know what
 * depends on what. No row emits one yet, and the executor refuses one by name: its programs compute both halves in one
 * pass, and zt_cost_stage() leaves their costs empty.
 *
 * Deadlock: a send follows at once what it sends, and a receive stands right before what needs it. With receives that
 * block and sends that block at the ninth unreceived message of a pair (comm.h), every list ends; the test simulates
 * it. */
#ifndef ZT_PARALLEL_SCHEDULE_SCHEDULE_H
#define ZT_PARALLEL_SCHEDULE_SCHEDULE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

enum zt_instruction_op {
    ZT_DO_LOAD,      /* inputs and targets this stage reads, into the slot */
    ZT_DO_RECV_ACT,  /* from the stage before, into the slot */
    ZT_DO_FORWARD,   /* fills the slot with what backward needs */
    ZT_DO_SEND_ACT,  /* to the stage after */
    ZT_DO_RECV_GRAD, /* from the stage after */
    ZT_DO_BACKWARD,  /* accumulates parameter gradients; the slot is free once SEND_GRAD, or on stage 0 this, is done */
    ZT_DO_BACKWARD_INPUT,  /* of a split backward: gradients of what the stage received */
    ZT_DO_BACKWARD_WEIGHT, /* and of its parameters, accumulated */
    ZT_DO_SEND_GRAD,       /* to the stage before */
    ZT_DO_SCATTER,         /* mode dp: inputs from rank 0 to all replicas, their rows each, into the slot */
    ZT_DO_GATHER_ACT,      /* mode dp: what the loss reads, from all replicas to rank 0's slot of the loss */
    ZT_DO_SCATTER_GRAD,    /* mode dp: its gradients back */
    ZT_DO_REDUCE,          /* gradients over the data-parallel ranks of the stage */
    ZT_DO_CLIP,            /* norm over all ranks, overflow check, clipping factor */
    ZT_DO_STEP,            /* optimizer on the owned slices */
    ZT_DO_GATHER,          /* parameters over the data-parallel ranks of the stage */
    ZT_INSTRUCTION_OPS
};

struct zt_instruction {
    enum zt_instruction_op op;
    int micro_batch; /* -1 from REDUCE on */
    int chunk;       /* which of the stage's model parts; 0 where there is one; mode dp: 1 is the loss */
    int slot;        /* activation memory, 0..slots-1; -1 from REDUCE on */
};

struct zt_schedule {
    int slots; /* micro-batches in flight at once */
    int count;
    const struct zt_instruction *at;
};

struct zt_schedule_shape {
    int micro_batches; /* of one optimizer step (gradient accumulation), at least 1 */
    int stages, chunks;
    int stage; /* 0..stages-1 */
};

/* The list of schedule `name` ("1f1b", "gpipe"), held by `arena`. One stage: LOAD FORWARD BACKWARD for each micro-batch
 * in one slot, whatever the name. Errors: unknown name, a shape out of range, chunks the schedule cannot have. */
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

/* Whether a training list of one chunk does everything once for each micro-batch, and nothing before what it needs:
 * FORWARD, a whole or a split backward, SEND_GRAD behind the part that makes it, REDUCE behind all. Errors name stage,
 * instruction and micro-batch. */
bool zt_schedule_check(const struct zt_schedule *schedule, const struct zt_schedule_shape *shape, struct zt_err *err);

/* "RECV_ACT" */
const char *zt_instruction_name(enum zt_instruction_op op);

/* Appends one line without its end, as `ztrain plan` shows it: "3 slots: <a0 F0 a0> ... REDUCE CLIP STEP GATHER". L
 * load, F forward, B backward (I and W where it is split: inputs, weights), <a and a> activations received and sent, <g
 * and g> gradients, S G D what mode dp scatters and gathers (.1: the loss); the middle of a long list is counted. */
void zt_schedule_print(struct zt_text *to, const struct zt_schedule *schedule);

#endif
