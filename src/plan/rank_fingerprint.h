/* The hash that ranks compare before they start. */
#ifndef ZT_PLAN_RANK_FINGERPRINT_H
#define ZT_PLAN_RANK_FINGERPRINT_H

#include "plan/rank_plan.h"

/* Stir into plan->hash what all ranks must agree on: a program's joint graph, and what the config says of ranks. */
void zt_rank_plan_stir_graph(struct zt_rank_plan *p, int64_t rows, const struct zt_graph *g);
void zt_rank_plan_stir_config(struct zt_rank_plan *p, const struct zt_config *c);

#endif
