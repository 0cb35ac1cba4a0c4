/* Plays the instruction lists of all stages against each other with predicted times: what overlaps with what, who waits
 * for whom, how long a step takes. Data-parallel ranks of a stage do the same at the same time, so one of each stage is
 * played. Sends are buffered (comm.h): a stage goes on without its peer, the receiver waits until the message is
 * there. Where messages do not move by themselves, either end is busy with one for half of its time. */
#ifndef ZT_PARALLEL_SCHEDULE_SIMULATE_H
#define ZT_PARALLEL_SCHEDULE_SIMULATE_H

#include "parallel/schedule/cost.h"
#include "parallel/schedule/schedule.h"

enum zt_event_kind {
    ZT_EVENT_FORWARD,
    ZT_EVENT_BACKWARD,
    ZT_EVENT_SEND,
    ZT_EVENT_RECV, /* waiting for and taking a message */
    ZT_EVENT_GATHER,
    ZT_EVENT_REDUCE,
    ZT_EVENT_UPDATE,
    ZT_EVENT_KINDS
};
struct zt_event {
    enum zt_event_kind kind;
    int stage, micro_batch; /* -1: of the whole step */
    double start, end;      /* seconds from the step's begin */
    bool beside;            /* while the stage does other things: a send, a collective underway */
};

struct zt_timeline {
    struct zt_event *at;
    int count;
    double seconds; /* of the step */
    double bubble; /* share of the stages' time until the last backward ends in which no kernel and no collective ran */
};

/* `schedules` and `costs` by stage. Lists live in `arena`. Errors: the lists wait for each other for ever. */
bool zt_simulate(struct zt_arena *arena, int stages, const struct zt_schedule *schedules,
                 const struct zt_stage_cost *costs, int micro_batches, struct zt_timeline *to, struct zt_err *err);

/* "forward" */
const char *zt_event_name(enum zt_event_kind kind);

#endif
