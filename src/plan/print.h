/* Printing of plans: groups of equal ranks, then each stage. */
#ifndef ZT_PLAN_PRINT_H
#define ZT_PLAN_PRINT_H

#include "plan/plan.h"

/* Prints the plan, as in plan.txt and in the output of `ztrain plan`. */
void zt_plan_print(const struct zt_plan *plan, FILE *to);
/* Prints one JSON object: layout, batch sizes, bytes of every rank by lifetime, bytes sent, and the predicted step. */
void zt_plan_print_json(const struct zt_plan *plan, FILE *to);

#endif
