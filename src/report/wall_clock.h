/* The lines of wall_clock_breakdown, as DeepSpeed prints them: "time (ms) | fwd: 1.23 | bwd: 2.34 | ...". */
#ifndef ZT_REPORT_WALL_CLOCK_H
#define ZT_REPORT_WALL_CLOCK_H

#include "base/log.h"
#include "config/config.h"
#include "run/timers/timers.h"

/* Seconds of a step on one rank, in DeepSpeed's terms. `backward` is backward_inner + backward_reduce; `step` is
 * gradients + update + gather: norm, clipping and overflow check; optimizer; weights over the ranks. */
struct zt_wall_clock {
    double load, forward, backward, backward_inner, backward_reduce, step;
    double gradients, update, gather;
    double derive;                                   /* weights cast and packed for the forward phase */
    double send_act, send_grad, recv_act, recv_grad; /* between pipeline stages */
    double seconds;                                  /* the whole step */
    struct {
        double seconds;
        int count;
    } swaps[ZT_TIMER_SWAPS]; /* by kind, from ZT_TIMER_SWAP_IN on; they are parts of the others */
};

/* Sums the timers of one micro-batch, or of the whole step if micro_batch is -1. The parts of the optimizer belong to
 * the step and to the last micro-batch of `micro_batches`. */
struct zt_wall_clock zt_wall_clock_of(const struct zt_step_timers *timers, int micro_batch, int micro_batches);

/* The steps of a pipeline since its lines were printed. Zeroed at first. */
struct zt_wall_clock_interval {
    struct zt_wall_clock sum;
    int steps;
};

/* Prints the lines of optimizer step `step` (from 1) with `micro_batches` micro-batches of this rank: the optimizer's
 * timers, a line per micro-batch, a line for the step. Pipelines print theirs every steps_per_print steps: means over
 * the steps of `interval`, which are those since the last printed ones. */
void zt_wall_clock_say(struct zt_wall_clock_interval *interval, const struct zt_config *config,
                       const struct zt_step_timers *timers, int64_t step, int micro_batches, const struct zt_log *log);

#endif
