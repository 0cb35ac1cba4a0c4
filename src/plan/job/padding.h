/* Embeddings with a padding row that is not trained (ztrain.padding_idx). */
#ifndef ZT_PLAN_JOB_PADDING_H
#define ZT_PLAN_JOB_PADDING_H

#include "plan/job/job.h"

/* Marks the Gather nodes of ztrain.padding_idx in a graph after zt_job_settle_parameters(). Every pattern that does not
 * fit is an error. */
bool zt_job_mark_paddings(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);

#endif
