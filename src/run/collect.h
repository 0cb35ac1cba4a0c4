/* Collection of the trained tensors of all stages on rank 0. */
#ifndef ZT_RUN_COLLECT_H
#define ZT_RUN_COLLECT_H

#include "run/rank/rank.h"

/* Trained tensors with their names and numbers of elements. */
struct zt_collected {
    struct zt_onnx_payload *payloads;
    int64_t *elements;
    bool *statistic; /* a running statistic, not a parameter */
    int count;
};
/* Collects all trained tensors and statistics of all stages on rank 0. Collective. On rank 0 the tensors are allocated
 * in `arena`, or lie in the memory of the rank; on other ranks the count is 0. */
bool zt_rank_collect(struct zt_rank *rank, struct zt_arena *arena, struct zt_collected *to, struct zt_err *err);

#endif
