/* Findings about the model that a run reports at its start. */
#ifndef ZT_PLAN_JOB_FINDINGS_H
#define ZT_PLAN_JOB_FINDINGS_H

#include "plan/job/job.h"

/* Fills job->findings from the graph `g` after zt_job_find_parameters(). */
void zt_job_find_findings(struct zt_job *job, const struct zt_graph *g);
/* Adds the finding of nodes that scale by what may be the exported batch (zt_job_infer()), if there are any. */
void zt_job_find_numbers(struct zt_job *job, const struct zt_texts *numbers);

#endif
