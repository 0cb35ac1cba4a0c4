/* The nodes of a step one by one: what runs them, what they compute and move, what they are estimated to take and what
 * they took. For `plan --nodes` and `train --profile`. */
#ifndef ZT_PLAN_PROFILE_H
#define ZT_PLAN_PROFILE_H

#include "base/log.h"
#include "plan/plan.h"

/* Measured seconds by stage, as zt_plan_predict has them (NULL: nothing was), and of a whole step. */
struct zt_profile {
    const struct zt_plan *plan;
    const double *const *times;
    double step_seconds;
};

/* Tab-separated, to `path`: a line that names the columns, then a line a node of each stage's first training program,
 * in the order in which they run, and a line for loading, norm and update. Times are of one run, in microseconds;
 * `runs` says how many there are in a step; "-" where nothing is known. */
bool zt_profile_write(const struct zt_profile *profile, const char *path, struct zt_err *err);

/* The same on the console, as a table: what took longest in a step comes first, and all of it against the step. */
void zt_profile_say(const struct zt_profile *profile, const struct zt_log *log);

#endif
