/* What the parts of a job add to the training graph in the same way. */
#ifndef ZT_PLAN_JOB_JOINT_H
#define ZT_PLAN_JOB_JOINT_H

#include "plan/job/job.h"

/* A line for the user. */
void zt_job_note(struct zt_training_graph *joint, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A value that is fed. */
int zt_job_add_input(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape);

#endif
