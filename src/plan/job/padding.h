/* Look-ups whose padding rows are not trained (ztrain.padding_idx). */
#ifndef ZT_PLAN_JOB_PADDING_H
#define ZT_PLAN_JOB_PADDING_H

#include "plan/job/job.h"

/* Marks the look-ups of ztrain.padding_idx in a graph whose parameters are settled; all that do not fit are errors. */
bool zt_job_mark_paddings(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);

#endif
