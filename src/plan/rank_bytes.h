/* How many bytes a rank needs, by lifetime. */
#ifndef ZT_PLAN_RANK_BYTES_H
#define ZT_PLAN_RANK_BYTES_H

#include "plan/rank_plan.h"

/* Bytes of a rank by lifetime. */
struct zt_rank_bytes {
    int64_t parameters, gradients, optimizer, activations, workspace; /* parameters: with statistics, packed copies */
};
int64_t zt_rank_bytes_total(const struct zt_rank_bytes *bytes);

/* What the data-parallel rank `data_rank` of the plan's stage holds. */
struct zt_rank_bytes zt_rank_plan_bytes(const struct zt_rank_plan *plan, int data_rank);
/* Elements whose optimizer step it does and state it holds: copies of weights of other stages are not among them. */
int64_t zt_rank_plan_stepped(const struct zt_rank_plan *plan, int data_rank);
/* The data-parallel rank of the stage that owns most. */
int zt_rank_plan_largest(const struct zt_rank_plan *plan);

/* Fills the bytes of the rank's five blocks and the FLOPs of a micro-batch, once all programs are there. */
void zt_rank_plan_count(struct zt_rank_plan *p, const struct zt_config *c, bool training);

#endif
