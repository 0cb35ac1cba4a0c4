/* plan.txt: all ranks in classes, then each stage whole. */
#ifndef ZT_PLAN_PRINT_H
#define ZT_PLAN_PRINT_H

#include "plan/plan.h"

/* plan.txt, and what `ztrain plan` prints. */
void zt_plan_print(const struct zt_plan *plan, FILE *to);

#endif
