/* The trained tensors of all stages, brought to rank 0. */
#ifndef ZT_RUN_COLLECT_H
#define ZT_RUN_COLLECT_H

#include "run/rank/rank.h"

/* Brings all trained tensors and statistics of all stages to rank 0 (collective): payloads by name into `arena` there,
 * *count 0 elsewhere. */
bool zt_rank_collect(struct zt_rank *rank, struct zt_arena *arena, struct zt_onnx_payload **payloads,
                     int64_t **elements, int *count, struct zt_err *err);

#endif
