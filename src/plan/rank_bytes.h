/* Memory of a rank by lifetime, and the type of gradients on their way. */
#ifndef ZT_PLAN_RANK_BYTES_H
#define ZT_PLAN_RANK_BYTES_H

#include "plan/rank_plan.h"

/* Bytes of a rank by lifetime. */
struct zt_rank_bytes {
    int64_t parameters, gradients, optimizer, activations,
        workspace;      /* parameters include frozen weights, statistics and packed copies */
    int64_t host, nvme; /* offloaded: host memory beside a GPU, and files (plan/offload.h) */
};
/* Returns the sum over all lifetimes, without what is offloaded. */
int64_t zt_rank_bytes_total(const struct zt_rank_bytes *bytes);

/* Returns the memory of data-parallel rank `data_rank` of the plan's stage. */
struct zt_rank_bytes zt_rank_plan_bytes(const struct zt_rank_plan *plan, int data_rank);
/* Returns the number of elements that the rank updates and holds optimizer state for, without copies of other stages'
 * weights. */
int64_t zt_rank_plan_stepped(const struct zt_rank_plan *plan, int data_rank);
/* Returns the data-parallel rank of the stage with the most memory. */
int zt_rank_plan_largest(const struct zt_rank_plan *plan);

/* Fills the bytes of the rank's memory blocks and the FLOPs of a micro-batch. All programs must exist. */
void zt_rank_plan_count(struct zt_rank_plan *p, const struct zt_config *c);

/* The type in which gradients are summed over ranks: ZT_FLOAT, ZT_FLOAT16 or ZT_BFLOAT16; fp32 for one rank. */
enum zt_dtype zt_rank_plan_wire(const struct zt_rank_plan *plan);

#endif
