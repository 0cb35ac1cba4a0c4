/* Schedules are run in tests by a machine that knows only what comm.h promises: sends that block at a full buffer,
 * receives that block, rendezvous of all ranks of a stage (REDUCE, GATHER, and what ZeRO puts inside forwards and
 * backwards) and of the world (CLIP). */
#ifndef ZT_TESTS_PARALLEL_SCHEDULE_MACHINE_H
#define ZT_TESTS_PARALLEL_SCHEDULE_MACHINE_H

#include "parallel/schedule/schedule.h"

enum { MOST_STAGES = 20, DATA = 2, MOST_MICRO = 40, BUFFERED = 8 };

/* One way between two neighbours of a pipeline. */
struct channel {
    int micro_batch[MOST_MICRO];
    int sent, received;
};

struct rank {
    const struct zt_schedule *schedule;
    int at;
    int meetings;                         /* rendezvous this rank stands at or has passed */
    bool waits_at_meeting;                /* counted in, not yet through */
    int holder[MOST_MICRO];               /* by slot: micro-batch, -1 free */
    int in_flight, forwarded, backwarded; /* backwarded: parameter gradients */
    int input_graded;                     /* gradients of what was received; before them no SEND_GRAD */
    bool sent_grad[MOST_MICRO];
};

struct machine {
    int stages, micro_batches, buffered;
    bool training;
    bool inside; /* zero2, zero3: the ranks of a stage meet in every forward and backward too */
    struct zt_schedule schedule[MOST_STAGES];
    struct rank rank[MOST_STAGES][DATA];
    struct channel act[MOST_STAGES][DATA], grad[MOST_STAGES][DATA]; /* act[s]: s to s + 1; grad[s]: s to s - 1 */
};

/* Runs the lists to their end; checks on the way and behind it what the fields above promise. */
void run_schedules(struct machine *m, const char *name);

#endif
