/* A graph of the model for a number of samples. */
#ifndef ZT_PLAN_JOB_BIND_H
#define ZT_PLAN_JOB_BIND_H

#include "plan/job/job.h"

/* Binds the inputs of a graph of the model to `rows` samples of the shapes that `source` has (NULL: of the graph's own)
 * and infers it. A model that was exported for another batch is bound anew where that is sure to be right, else refused
 * with the node that fixes the batch (graph/passes/rebind.h). */
bool zt_job_infer(const struct zt_job *job, struct zt_graph *g, const struct zt_source *source, int64_t rows,
                  struct zt_err *err);

#endif
