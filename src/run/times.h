/* How long what a rank runs takes, in some steps of a run: the kernel times that its prediction is made of
 * (forecast.h) and that --profile shows. On the host by the clock, whose kernels are done when they return; on a device
 * by marks in its queue, in steps that are queued piece by piece (nothing of them is captured) and waited for. */
#ifndef ZT_RUN_TIMES_H
#define ZT_RUN_TIMES_H

#include "parallel/schedule/cost.h"
#include "run/rank_run.h"

/* Whether the step at hand is timed. */
bool zt_rank_times_on(const struct zt_rank *r);
/* From here on what runs or is queued belongs to the node or the part that is named next, with what this gave. Harmless
 * where nothing is timed. */
double zt_rank_times_begin(struct zt_rank *r);
void zt_rank_times_node(struct zt_rank *r, const struct zt_run_program *rp, int node, double began);
void zt_rank_times_part(struct zt_rank *r, enum zt_part part, double began);
bool zt_rank_times_end(struct zt_rank *r, struct zt_err *err); /* of a step */

#endif
