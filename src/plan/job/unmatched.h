/* Globs of the config that nothing of the model matches. */
#ifndef ZT_PLAN_JOB_UNMATCHED_H
#define ZT_PLAN_JOB_UNMATCHED_H

#include "plan/job/job.h"

/* Fills job->unmatched from the graph in which the parameters are settled. */
void zt_job_find_unmatched(struct zt_job *job, const struct zt_graph *g);

#endif
