/* Embeddings with a padding row that is not trained: those of the file, and ztrain.padding_idx. */
#ifndef ZT_PLAN_JOB_PADDING_H
#define ZT_PLAN_JOB_PADDING_H

#include "plan/job/job.h"

/* Fills job->paddings from a graph after zt_job_find_parameters(): lookups of PyTorch's files that padding_idx had
 * (zt_trainable_padding()), but for tables that ztrain.trainable names and those of ztrain.padding_idx. */
void zt_job_find_paddings(struct zt_job *job, const struct zt_graph *g);

/* Marks the Gather nodes of job->paddings and of ztrain.padding_idx in a graph after zt_job_settle_parameters(). Every
 * pattern that does not fit is an error. */
bool zt_job_mark_paddings(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);

#endif
