/* The lines of activation_checkpointing.profile: the time of each recomputed segment, forward and again. */
#ifndef ZT_REPORT_SEGMENT_TIMES_H
#define ZT_REPORT_SEGMENT_TIMES_H

#include "base/log.h"
#include "plan/plan.h"

/* Prints the segments of all stages. `times`: by stage, the node times of step `step` (from 1; zt_rank_timed). */
void zt_segments_say(const struct zt_plan *plan, const double *const *times, int64_t step, const struct zt_log *log);

#endif
