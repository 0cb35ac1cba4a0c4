/* DeepSpeed's memory estimators for the model of a plan. */
#ifndef ZT_PLAN_ESTIMATE_H
#define ZT_PLAN_ESTIMATE_H

#include "plan/plan.h"

/* The table of DeepSpeed's memory estimators, part of what zt_plan_print prints. */
void zt_plan_print_estimate(const struct zt_plan *plan, FILE *to);

#endif
