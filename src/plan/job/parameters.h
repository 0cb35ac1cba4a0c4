/* The parameters of a job: the initializers that it trains. */
#ifndef ZT_PLAN_JOB_PARAMETERS_H
#define ZT_PLAN_JOB_PARAMETERS_H

#include "plan/job/job.h"

/* Decides which initializers are trainable, in a graph with the exporter's classification, and applies the decision to
 * it: undoes the exporter's folding of parameters, applies ties, reads ztrain.trainable and ztrain.freeze. Names that
 * match nothing are errors. */
bool zt_job_find_parameters(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Applies the same decisions to another graph of the job. */
bool zt_job_settle_parameters(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Whether ztrain.trainable contains exactly `name`. A glob in it only selects among trainable initializers. */
bool zt_job_is_asked_for(const struct zt_config *c, const char *name);

#endif
