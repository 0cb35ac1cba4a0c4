/* The report of flops_profiler: DeepSpeed's groups of numbers, modules and operators. It counts on the training graph
 * and times its nodes in one step.
 *
 *     forward and backward    one micro-batch, per stage of a pipeline
 *     step                    the optimizer
 *     iter                    the whole step: all micro-batches, the optimizer, data and messages */
#ifndef ZT_REPORT_FLOPS_H
#define ZT_REPORT_FLOPS_H

#include "plan/plan.h"

/* Seconds on the slowest rank of a stage. */
struct zt_flops_latency {
    double forward, backward; /* of a micro-batch */
    double step, iter;
};

struct zt_flops_report {
    const struct zt_plan *plan;
    int64_t step;                           /* number of the step, from 1 */
    int64_t samples;                        /* of the step, on all ranks */
    const double *const *times;             /* by stage: node times (zt_rank_timed), < 0: unknown */
    const struct zt_flops_latency *latency; /* by stage */
};

/* Returns the text of the report. Free with free(). NULL with an error if there is no memory for it. */
char *zt_flops_text(const struct zt_flops_report *report, struct zt_err *err);

#endif
