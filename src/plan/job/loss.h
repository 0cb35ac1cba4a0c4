/* The loss of a job's training graph: output, target, weights. */
#ifndef ZT_PLAN_JOB_LOSS_H
#define ZT_PLAN_JOB_LOSS_H

#include "plan/job/job.h"

/* Determines the output that the loss reads, and the names of target and weight columns. */
bool zt_job_find_loss(struct zt_job *job, struct zt_err *err);
/* Adds target and weight to the required columns, after the inputs. `logits`: the output value with the shape known so
 * far. */
void zt_job_want_target(struct zt_job *job, const struct zt_value *logits);
/* Appends the loss of value `root` and the evaluation metrics, or uses the graph's own scalar output. */
bool zt_job_add_loss(const struct zt_job *job, const struct zt_source *source,
                     const struct zt_training_graph_request *request, struct zt_training_graph *training_graph,
                     int root, struct zt_err *err);

#endif
