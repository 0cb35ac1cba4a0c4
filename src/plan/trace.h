/* Trace file of the simulated step of a plan. */
#ifndef ZT_PLAN_TRACE_H
#define ZT_PLAN_TRACE_H

#include "plan/plan.h"

/* Writes the simulated step as a Chrome trace to `path`. */
bool zt_plan_trace(const struct zt_plan *plan, const char *path, struct zt_err *err);

#endif
