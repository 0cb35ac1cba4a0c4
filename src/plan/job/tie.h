/* Initializers that are trained as one. */
#ifndef ZT_PLAN_JOB_TIE_H
#define ZT_PLAN_JOB_TIE_H

#include "plan/job/job.h"

/* Reads ztrain.tie against a graph with verdicts; every group that does not fit is an error. Adds the copies that the
 * exporter left, unless ztrain.tie_equal is off. */
bool zt_job_find_ties(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Makes one parameter of each group. */
bool zt_job_apply_ties(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* A line for every one whose initial values are given up. */
void zt_job_note_ties(const struct zt_job *job, struct zt_training_graph *joint);

#endif
