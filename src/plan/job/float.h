/* Models in half or double precision, which train in fp32. */
#ifndef ZT_PLAN_JOB_FLOAT_H
#define ZT_PLAN_JOB_FLOAT_H

#include "plan/job/job.h"

/* Determines the types that are computed in fp32 and converts weights of these types. `used` says for each value
 * whether a node reads it. */
void zt_job_find_floats(struct zt_job *job, const struct zt_graph *g, const bool *used, int root);
/* Returns the type in the training graph of a value with type `stored` in the model file. */
enum zt_dtype zt_job_type(const struct zt_job *job, enum zt_dtype stored);
/* Converts the values of the training graph to fp32. *root is the logits value and is updated. */
bool zt_job_to_float(const struct zt_job *job, struct zt_training_graph *training_graph, int *root, struct zt_err *err);

#endif
