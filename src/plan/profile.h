/* The profile of a step, node by node: implementation, FLOPs, bytes, estimated and measured time. Used by `plan
 * --nodes` and `train --profile`. */
#ifndef ZT_PLAN_PROFILE_H
#define ZT_PLAN_PROFILE_H

#include "base/log.h"
#include "plan/plan.h"

/* Measured times by stage as in zt_plan_predict() (NULL: none), and of a whole step. */
struct zt_profile {
    const struct zt_plan *plan;
    const double *const *times;
    double step_seconds;
};

/* Writes a tab-separated table to `path`: a line of column names, a line for each node of the first training program of
 * each stage in execution order, and lines for loading, norm and update. Times are of one run, in microseconds; `runs`
 * is the number of runs in a step, `macs` are the multiply-accumulates of products and convolutions, which `flops`
 * counts twice and adds other operations to. "-" means unknown. */
bool zt_profile_write(const struct zt_profile *profile, const char *path, struct zt_err *err);

/* Prints the table to the console, the longest times of a step first, with their share of the step. */
void zt_profile_say(const struct zt_profile *profile, const struct zt_log *log);

#endif
