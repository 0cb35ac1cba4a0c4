/* ztrain.lora: low-rank adapters (graph/passes/low_rank/low_rank.h) of the weights that the config selects.
 *
 * Weights are selected by their names or by those of the nodes that read them. A weight is adapted where every reader
 * is a node whose row allows it; an embedding that is also the output layer is left out, since its merged weight would
 * change the embedding. All parameters of the model are frozen, except those that ztrain.trainable names.
 *
 * A and B are named as modules of Hugging Face's PEFT: "h.0.attn.weight" has "h.0.attn.lora_A.weight" and
 * "h.0.attn.lora_B.weight". A starts uniform in [-1/sqrt(in), 1/sqrt(in)), which is PEFT's Kaiming initialisation with
 * a = sqrt(5); the numbers are a function of the run's seed and the weight's name. B starts at zero. */
#ifndef ZT_PLAN_JOB_LORA_H
#define ZT_PLAN_JOB_LORA_H

#include "plan/job/job.h"

/* Finds job->adapters in a graph after zt_job_find_parameters(). Patterns that select nothing and ranks that exceed a
 * matrix are errors. */
bool zt_job_find_adapters(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* With ztrain.lora, freezes the parameters of an inferred graph, except those that ztrain.trainable names. Before
 * inference they would be folded into constants. */
void zt_job_freeze(const struct zt_job *job, struct zt_graph *g);
/* Adds the adapters to a graph in float. */
bool zt_job_adapt(const struct zt_job *job, struct zt_training_graph *training_graph, struct zt_err *err);
/* W + s B A in an arena, for a stored weight W and the contents of A and B, computed in double precision and rounded to
 * float. */
float *zt_job_merge(struct zt_arena *arena, const struct zt_adapter *adapter, const float *weight,
                    const float *const factors[2]);
/* Adds one line per group of weights whose names differ in numbers alone, and one for each weight left out. */
void zt_job_list_adapters(const struct zt_job *job, struct zt_texts *lines, struct zt_arena *arena);

#endif
