/* How long what a rank runs takes, in some steps of a run: the kernel times that its prediction is made of
 * (forecast.h) and that --profile shows. On the host by the clock, whose kernels are done when they return; on a device
 * by marks in its queue, in steps that are queued piece by piece (nothing of them is captured) and waited for. */
#ifndef ZT_RUN_RANK_TIMES_H
#define ZT_RUN_RANK_TIMES_H

#include "parallel/schedule/cost.h"
#include "run/rank/blocks.h"

/* Whether times can be had of what runs on the device. */
bool zt_rank_can_time(const struct zt_device *device);
/* From here on kernels are timed, in the next `steps` steps, where they can be; on a device that slows these down. Then
 * what all kernels of the timed step `step` took together, and zt_rank_plan_times() numbers as enum zt_part
 * (parallel/schedule/cost.h) has them. */
void zt_rank_time(struct zt_rank *rank, int steps);
double zt_rank_timed_step(const struct zt_rank *rank, int step);
void zt_rank_timed(const struct zt_rank *rank, int step, double *to);
void zt_rank_time_end(struct zt_rank *rank); /* harmless where nothing is timed */
int zt_rank_plan_times(const struct zt_rank_plan *plan);

/* Whether the step at hand is timed. */
bool zt_rank_times_on(const struct zt_rank *r);
/* From here on what runs or is queued belongs to the node or the part that is named next, with what this gave. Harmless
 * where nothing is timed. */
double zt_rank_times_begin(struct zt_rank *r);
void zt_rank_times_node(struct zt_rank *r, const struct zt_run_program *rp, int node, double began);
void zt_rank_times_part(struct zt_rank *r, enum zt_part part, double began);
bool zt_rank_times_end(struct zt_rank *r, struct zt_err *err); /* of a step */

#endif
