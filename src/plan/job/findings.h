/* What the start says of the model. */
#ifndef ZT_PLAN_JOB_FINDINGS_H
#define ZT_PLAN_JOB_FINDINGS_H

#include "plan/job/job.h"

/* Fills job->findings from the graph in which the parameters are settled. */
void zt_job_find_findings(struct zt_job *job, const struct zt_graph *g);

#endif
