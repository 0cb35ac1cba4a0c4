/* Attention by cuDNN (attention_dnn.h), which stores no scores. Part of the CUDA module. */
#ifndef ZT_OPS_ATTENTION_ATTENTION_FLASH_CUDA_H
#define ZT_OPS_ATTENTION_ATTENTION_FLASH_CUDA_H

#include "ops/attention/attention.h"

/* Prepares Attention and AttentionTrain, or with `grad` AttentionGrad, and sets the workspace. NULL where our own
 * kernels run the node: it is no such graph, or cuDNN has no engine that is deterministic and without known faults.
 * free() releases the plan. */
struct zt_flash_plan *zt_flash_create(struct zt_prepare *p, const struct zt_attention *a, bool grad);
/* Queues the node. */
bool zt_flash_run(const struct zt_flash_plan *plan, const struct zt_call *call, struct zt_err *err);

#endif
