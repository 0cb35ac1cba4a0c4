/* The end of a job's training graph: output, target, weights, loss. */
#ifndef ZT_PLAN_JOB_LOSS_H
#define ZT_PLAN_JOB_LOSS_H

#include "plan/job/job.h"

/* Which output the loss reads, and the names of the columns beside it. */
bool zt_job_find_loss(struct zt_job *job, struct zt_err *err);
/* Adds the wants of target and weight, behind those of the inputs. `logits`: the output, its shape as far as known. */
void zt_job_want_target(struct zt_job *job, const struct zt_value *logits);
/* Appends the loss on value `root` and what evaluation counts, or takes the graph's own scalar. */
bool zt_job_add_loss(const struct zt_job *job, const struct zt_source *source,
                     const struct zt_training_graph_request *request, struct zt_training_graph *joint, int root,
                     struct zt_err *err);

#endif
