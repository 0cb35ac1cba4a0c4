/* The step whose nodes are timed, for flops_profiler and activation_checkpointing.profile. */
#ifndef ZT_REPORT_PROFILER_H
#define ZT_REPORT_PROFILER_H

#include "base/log.h"
#include "plan/plan.h"
#include "run/rank/rank.h"
#include "run/timers/timers.h"

enum zt_profile { ZT_PROFILE_FLOPS, ZT_PROFILE_SEGMENTS, ZT_PROFILES };

struct zt_profiler {
    const struct zt_config *config; /* borrowed, like all pointers below */
    const struct zt_rank_plan *plan;
    const struct zt_plan *stages; /* rank 0: the plan of all stages; NULL on other ranks */
    struct zt_rank *rank;
    struct zt_comm *world;
    const struct zt_timers *timers;
    const char *folder; /* of the run */
    const struct zt_log *log;
    int64_t first; /* steps done before this run */
    bool done[ZT_PROFILES];
    bool own; /* the node times of the current step are measured for the profiler alone */
};

/* Creates the folder of flops_profiler.output_file. */
bool zt_profiler_prepare(const struct zt_config *config, struct zt_err *err);
/* Whether the nodes of step `step` (from 0) are timed. */
bool zt_profiler_times(const struct zt_profiler *p, int64_t step);
/* Whether a run of `steps` steps reaches the step in which segments are timed. */
bool zt_profiler_times_segments(const struct zt_profiler *p, int64_t steps);
/* Called before a step that is timed. */
void zt_profiler_before(struct zt_profiler *p);
/* Called after the timed step `step` with `samples` samples: rank 0 writes and prints the reports. A smaller last step
 * of an epoch runs another program, whose nodes are not timed; the next step is timed instead. Collective. */
bool zt_profiler_step(struct zt_profiler *p, int64_t step, int64_t samples, struct zt_err *err);

#endif
