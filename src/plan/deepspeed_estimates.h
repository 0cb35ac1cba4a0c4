/* The tables of DeepSpeed's memory estimators for the model of a plan. */
#ifndef ZT_PLAN_DEEPSPEED_ESTIMATES_H
#define ZT_PLAN_DEEPSPEED_ESTIMATES_H

#include "plan/plan.h"

/* Prints the tables of DeepSpeed's memory estimators, a part of zt_plan_print(). */
void zt_plan_print_estimate(const struct zt_plan *plan, FILE *to);

#endif
