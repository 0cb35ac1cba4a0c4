/* The host memory that ranks need, held against the memory of the host. */
#ifndef ZT_PLAN_HOST_NEED_H
#define ZT_PLAN_HOST_NEED_H

#include "plan/rank_bytes.h"
#include "base/process_memory.h"

/* Bytes of host memory, of one rank or of all ranks of a host. */
struct zt_host_need {
    int64_t blocks;  /* the memory blocks of ranks on a CPU, and the host memory beside GPUs */
    int64_t export;  /* copies of the weights while the model is written */
    int64_t process; /* code, libraries, batches that are read ahead */
    int64_t cache;   /* pages of the model file and of files that are being written */
};
int64_t zt_host_need_total(const struct zt_host_need *need);
void zt_host_need_add(struct zt_host_need *sum, const struct zt_host_need *one);

/* Returns the need of data-parallel rank `data_rank` of the plan's stage. */
struct zt_host_need zt_rank_plan_need(const struct zt_rank_plan *plan, int data_rank);

/* Returns false with an error (ZT_EXIT_CONFIG) that has both sizes if `need` exceeds the memory. `of`: "training",
 * "a rank". */
bool zt_host_need_fits(const struct zt_host_need *need, const struct zt_host_memory *memory, const char *of,
                       struct zt_err *err);

#endif
