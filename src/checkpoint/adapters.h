/* The trained adapters of ztrain.lora: merged into their weights, or as files of their own. */
#ifndef ZT_CHECKPOINT_ADAPTERS_H
#define ZT_CHECKPOINT_ADAPTERS_H

#include "plan/job/job.h"
#include "run/collect.h"
#include "session/session.h"

/* Replaces adapters by the weights W + s B A, computed in double precision and rounded to float. Other tensors stay.
 * `g` is the graph of the model file; the result is allocated in its arena. */
struct zt_collected zt_adapters_merge(const struct zt_job *job, struct zt_graph *g, const struct zt_collected *weights);

/* Writes FOLDER/adapter_model.safetensors and FOLDER/adapter_config.json, as Hugging Face's PEFT has them: A and B of
 * module M are "base_model.model.M.lora_A.weight" and "base_model.model.M.lora_B.weight". Other trained tensors and
 * running statistics follow by their own names. */
bool zt_adapters_write(const struct zt_session *s, const char *folder, const struct zt_collected *weights,
                       struct zt_err *err);

#endif
