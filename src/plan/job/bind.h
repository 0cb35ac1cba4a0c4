/* Binding of a model graph to a number of samples. */
#ifndef ZT_PLAN_JOB_BIND_H
#define ZT_PLAN_JOB_BIND_H

#include "plan/job/job.h"

/* Binds the inputs of the model graph `g` to `rows` samples and infers all shapes. Column shapes come from `source`
 * (NULL: from the graph). A model that was exported for another batch size is rebound where this is known to be
 * correct; otherwise the error names the node that fixes the batch (graph/passes/rebind.h). numbers: nodes that scale
 * by what may be the exported batch (graph/passes/batch_numbers.h), in the arena of `g`; NULL: not wanted. */
bool zt_job_infer(const struct zt_job *job, struct zt_graph *g, const struct zt_source *source, int64_t rows,
                  struct zt_texts *numbers, struct zt_err *err);

#endif
