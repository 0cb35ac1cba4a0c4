/* The compressed all-reduce of 1-bit optimizers in a plan. */
#ifndef ZT_PLAN_COMPRESSED_H
#define ZT_PLAN_COMPRESSED_H

#include "base/text.h"

#include <stdio.h>

struct zt_rank_plan;

/* The first update without reduced gradients, from 1 on; 0: there is none, or only after many million. */
int64_t zt_compressed_first(const struct zt_rank_plan *plan);
/* Bytes that a rank sends in an update whose gradients are reduced, and in one that is compressed. */
int64_t zt_compressed_reduced_bytes(const struct zt_rank_plan *plan);
int64_t zt_compressed_bytes_sent(const struct zt_rank_plan *plan);
/* Prints collectives and bytes for plan.txt; nothing for other optimizers. */
void zt_compressed_print(const struct zt_rank_plan *plan, FILE *to);
/* The row of the start table for a run of `steps` steps; nothing for other optimizers. */
void zt_compressed_describe(const struct zt_rank_plan *plan, int64_t steps, struct zt_text *to);

#endif
