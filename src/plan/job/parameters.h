/* Which initializers a job trains. */
#ifndef ZT_PLAN_JOB_PARAMETERS_H
#define ZT_PLAN_JOB_PARAMETERS_H

#include "plan/job/job.h"

/* Decides what trains, once, from a graph with the exporter's verdicts, and settles it there: undoes what was computed
 * from parameters, ties, and reads ztrain.trainable and freeze. Names that fit nothing are errors. */
bool zt_job_find_parameters(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* The same decisions in another graph of the job. */
bool zt_job_settle_parameters(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Whether ztrain.trainable has the very name: a glob chooses among what the verdicts train. */
bool zt_job_is_asked_for(const struct zt_config *c, const char *name);

#endif
