/* Export of the trained model. */
#ifndef ZT_CHECKPOINT_EXPORT_H
#define ZT_CHECKPOINT_EXPORT_H

#include "plan/job/job.h"
#include "run/collect.h"
#include "session/session.h"

/* Writes model.onnx to `folder`, and model.16bit.onnx if zero_optimization.stage3_gather_16bit_weights_on_model_save is
 * on in an fp16 or bf16 run (its fp32 weights are rounded to that type), from the collected tensors. *hash is the hash
 * of all trained tensors. */
bool zt_export_model(const struct zt_session *s, const char *folder, const struct zt_collected *weights, uint64_t *hash,
                     struct zt_err *err);

#endif
