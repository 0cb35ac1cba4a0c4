/* Globs of the config that match nothing in the model. */
#ifndef ZT_PLAN_JOB_UNMATCHED_H
#define ZT_PLAN_JOB_UNMATCHED_H

#include "plan/job/job.h"

/* Fills job->unmatched from the graph `g` after zt_job_find_parameters(). */
void zt_job_find_unmatched(struct zt_job *job, const struct zt_graph *g);

#endif
