/* Kernel times of one step of a run, of the slowest rank of each stage, known to all ranks. */
#ifndef ZT_RUN_STAGE_TIMES_H
#define ZT_RUN_STAGE_TIMES_H

#include "run/rank/rank.h"

struct zt_stage_times {
    const double **of; /* by stage: the numbers of zt_rank_timed() (run/rank/times.h) */
    double *times;
};

/* Collects the times of `steps` timed steps from number `from` on (zt_rank_time), and keeps those of the step with the
 * median time. Collective over `world`. Must be finished, also after an error. */
bool zt_stage_times_collect(struct zt_stage_times *to, const struct zt_rank *run, int from, int steps,
                            struct zt_comm *world, struct zt_err *err);
void zt_stage_times_finish(struct zt_stage_times *times);

#endif
