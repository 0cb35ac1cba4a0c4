/* Tied initializers: several initializers that share one parameter. */
#ifndef ZT_PLAN_JOB_TIE_H
#define ZT_PLAN_JOB_TIE_H

#include "plan/job/job.h"

/* Checks ztrain.tie against a graph with classified initializers; every group that does not fit is an error. Unless
 * ztrain.tie_equal is false, adds the copies made by the exporter. */
bool zt_job_find_ties(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Replaces each group by one parameter. */
bool zt_job_apply_ties(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Adds a note for every initializer whose initial values are not used. */
void zt_job_note_ties(const struct zt_job *job, struct zt_training_graph *training_graph);

#endif
