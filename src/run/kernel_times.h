/* Which steps of a run have their kernels timed, for its prediction (forecast.h) and for --profile. */
#ifndef ZT_RUN_KERNEL_TIMES_H
#define ZT_RUN_KERNEL_TIMES_H

#include "run/forecast.h"

struct zt_kernel_times {
    const struct zt_session *session; /* borrowed, as all that follows */
    struct zt_forecast *forecast;
    const struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_device *device;
    struct zt_comm *world;
    int64_t steps; /* that this run does: without those of the checkpoint it goes on from */
    int timed;     /* steps whose kernels are timed; set by the first step */
};

/* Warns where --profile wants more steps than the run has. */
void zt_kernel_times_warn(const struct zt_kernel_times *t);
/* Behind the step `done` of this run, from 0, which took `seconds`: the first one is left out, as all is cold, and so
 * is the last. Collective. */
bool zt_kernel_times_step(struct zt_kernel_times *t, int64_t done, double seconds, struct zt_err *err);

#endif
