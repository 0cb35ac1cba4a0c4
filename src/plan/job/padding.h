/* Embeddings with a padding row that is not trained: those of the file, and ztrain.padding_idx. */
#ifndef ZT_PLAN_JOB_PADDING_H
#define ZT_PLAN_JOB_PADDING_H

#include "plan/job/job.h"

/* Fills job->paddings from a graph after zt_job_find_parameters(): lookups of PyTorch's files that padding_idx had
 * (zt_trainable_padding()), but for tables that ztrain.trainable names and those of ztrain.padding_idx. */
void zt_job_find_paddings(struct zt_job *job, const struct zt_graph *g);

/* Appends the tables of which lookups from node `first` on would have such a row by themselves: nodes inside of nodes
 * (zt_trainable_opened()), which are not marked. Names are those of the graph. */
void zt_job_find_inner_paddings(const struct zt_job *job, const struct zt_graph *g, int first, struct zt_texts *names);

/* Marks the Gather nodes of job->paddings and of ztrain.padding_idx in a graph after zt_job_settle_parameters(). Every
 * pattern that does not fit is an error. */
bool zt_job_mark_paddings(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);

#endif
