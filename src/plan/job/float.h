/* Models in half or double precision: computed in float. */
#ifndef ZT_PLAN_JOB_FLOAT_H
#define ZT_PLAN_JOB_FLOAT_H

#include "plan/job/job.h"

/* Which types are computed in float, and the weights of these as float. `used` by value: some node reads it. */
void zt_job_find_floats(struct zt_job *job, const struct zt_graph *g, const bool *used, int root);
/* The type a value of the file's graph has in the joint one. */
enum zt_dtype zt_job_type(const struct zt_job *job, enum zt_dtype stored);
/* Makes them so; *root is the logits. */
bool zt_job_to_float(const struct zt_job *job, struct zt_training_graph *joint, int *root, struct zt_err *err);

#endif
