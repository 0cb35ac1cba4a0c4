/* Timing of kernels in some steps of a run, for the forecast (forecast.h) and --profile. */
#ifndef ZT_RUN_KERNEL_TIMES_H
#define ZT_RUN_KERNEL_TIMES_H

#include "run/forecast.h"

struct zt_kernel_times {
    const struct zt_session *session; /* borrowed, like all pointers below */
    struct zt_forecast *forecast;
    const struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_device *device;
    struct zt_comm *world;
    int64_t steps; /* steps of this run, without those before the checkpoint it resumed from */
    int timed;     /* number of steps with timed kernels; set after the first step */
};

/* Prints a warning if the run has fewer steps than --profile needs. */
void zt_kernel_times_warn(const struct zt_kernel_times *t);
/* Called after step `done` of this run (from 0), which took `seconds`. The first step, with cold caches, and the last
 * step are not timed. Collective. */
bool zt_kernel_times_step(struct zt_kernel_times *t, int64_t done, double seconds, struct zt_err *err);

#endif
