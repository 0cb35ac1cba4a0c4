/* The compressed all-reduce of 1-bit optimizers in a plan. */
#ifndef ZT_PLAN_COMPRESSED_H
#define ZT_PLAN_COMPRESSED_H

#include "base/text.h"

#include <stdio.h>

struct zt_rank_plan;

/* Prints collectives and bytes for plan.txt; nothing for other optimizers. */
void zt_compressed_print(const struct zt_rank_plan *plan, FILE *to);
/* The row of the start table for a run of `steps` steps; nothing for other optimizers. */
void zt_compressed_describe(const struct zt_rank_plan *plan, int64_t steps, struct zt_text *to);

#endif
