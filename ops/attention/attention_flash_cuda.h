/* Inside the CUDA module: attention by cuDNN (attention_dnn.h), which stores no scores. */
#ifndef ZT_OPS_ATTENTION_ATTENTION_FLASH_CUDA_H
#define ZT_OPS_ATTENTION_ATTENTION_FLASH_CUDA_H

#include "ops/attention/attention.h"

/* For Attention and AttentionTrain, or with `grad` for AttentionGrad; sets the workspace. NULL where the node is left
 * to our own kernels: it is no such graph, or the cuDNN here has no engine for it that is deterministic and free of
 * known faults. Released by free(). */
struct zt_flash_plan *zt_flash_create(struct zt_prepare *p, const struct zt_attention *a, bool grad);
bool zt_flash_run(const struct zt_flash_plan *plan, const struct zt_call *call, struct zt_err *err);

#endif
