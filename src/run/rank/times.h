/* Kernel times of a rank in some steps of a run, for the forecast (forecast.h) and --profile. On the host they come
 * from the clock, because host kernels return when they are done. On a device they come from events in its queue, in
 * steps that are queued without capture and waited for. */
#ifndef ZT_RUN_RANK_TIMES_H
#define ZT_RUN_RANK_TIMES_H

#include "parallel/schedule/cost.h"
#include "run/rank/blocks.h"

/* Whether the device can measure kernel times. */
bool zt_rank_can_time(const struct zt_device *device);
/* Starts timing of kernels in the next `steps` steps, if the device supports it; this slows down a device.
 * zt_rank_timed_step() returns the sum over all kernels of the timed step `step`; zt_rank_timed() writes
 * zt_rank_plan_times() numbers in the order of enum zt_part (parallel/schedule/cost.h). */
void zt_rank_time(struct zt_rank *rank, int steps);
/* Returns the number of steps timed so far. */
int zt_rank_timed_count(const struct zt_rank *rank);
/* Returns the time of all kernels of timed step `step`. */
double zt_rank_timed_step(const struct zt_rank *rank, int step);
void zt_rank_timed(const struct zt_rank *rank, int step, double *to);
void zt_rank_time_end(struct zt_rank *rank); /* does nothing if timing is off */
int zt_rank_plan_times(const struct zt_rank_plan *plan);

/* Whether the current step is timed. */
bool zt_rank_times_on(const struct zt_rank *r);
/* zt_rank_times_begin() starts a measurement; its result is passed to the function that assigns the time to a node or a
 * part. These functions do nothing if timing is off. */
double zt_rank_times_begin(struct zt_rank *r);
void zt_rank_times_node(struct zt_rank *r, const struct zt_run_program *rp, int node, double began);
void zt_rank_times_part(struct zt_rank *r, enum zt_part part, double began);
bool zt_rank_times_end(struct zt_rank *r, struct zt_err *err); /* end of a step */

#endif
