/* The part of plan.txt about one stage. */
#ifndef ZT_PLAN_RANK_PRINT_H
#define ZT_PLAN_RANK_PRINT_H

#include <stdio.h>

struct zt_rank_plan;

/* Prints schedule, buckets and programs of the plan's stage. */
void zt_rank_plan_print(const struct zt_rank_plan *plan, FILE *to);

#endif
