/* Which tensors a stage holds, in what order, and what ZeRO 3 keeps of them. */
#ifndef ZT_PLAN_RANK_LAYOUT_H
#define ZT_PLAN_RANK_LAYOUT_H

#include "plan/rank_plan.h"

/* The layout of the stage's parameters and statistics, from the first joint graph built, and what stage 3 fetches ahead
 * and keeps (plan->traffic). */
void zt_rank_plan_lay_out(struct zt_rank_plan *p, const struct zt_training_graph *joint);

#endif
