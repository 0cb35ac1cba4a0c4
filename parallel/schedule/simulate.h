/* Discrete-event simulation of one optimizer step: plays the instruction lists of all pipeline stages with predicted
 * times, to find overlap, waiting times and the time of a step.
 *
 * Data-parallel ranks of a stage do the same at the same time, so one rank per stage is simulated. Sends are buffered
 * (comm.h): the sender continues, and the receiver waits for the message. On machines where messages need a rank's
 * thread (zt_machine.own_channel false), sender and receiver are each busy for half of the message's time. */
#ifndef ZT_PARALLEL_SCHEDULE_SIMULATE_H
#define ZT_PARALLEL_SCHEDULE_SIMULATE_H

#include "parallel/schedule/cost.h"
#include "parallel/schedule/schedule.h"

enum zt_event_kind {
    ZT_EVENT_FORWARD,
    ZT_EVENT_BACKWARD,
    ZT_EVENT_SEND,
    ZT_EVENT_RECV, /* waiting for a message and receiving it */
    ZT_EVENT_GATHER,
    ZT_EVENT_REDUCE,
    ZT_EVENT_UPDATE,
    ZT_EVENT_KINDS
};
struct zt_event {
    enum zt_event_kind kind;
    int stage, micro_batch; /* micro_batch -1: of the whole step */
    double start, end;      /* seconds since the start of the step */
    bool beside;            /* overlaps with other work of the stage: a send, or a collective in progress */
};

struct zt_timeline {
    struct zt_event *at;
    int count;
    double seconds; /* of the step */
    double bubble; /* pipeline bubble: fraction of the stages' time, up to the end of the last backward, without kernels
                      and collectives */
};

struct zt_simulation {
    int stages;
    const struct zt_schedule *schedules; /* by stage */
    const struct zt_stage_cost *costs;   /* by stage */
    int micro_batches;
};
/* The event list is allocated in `arena`. Fails when the instruction lists deadlock. */
bool zt_simulate(struct zt_arena *arena, const struct zt_simulation *simulation, struct zt_timeline *to,
                 struct zt_err *err);

/* The name for users, such as "forward". */
const char *zt_event_name(enum zt_event_kind kind);

#endif
