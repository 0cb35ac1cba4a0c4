/* Search for the origin of the first non-finite number: the step or evaluation is run again and the outputs of
 * every node are checked. */
#ifndef ZT_RUN_NON_FINITE_ORIGIN_H
#define ZT_RUN_NON_FINITE_ORIGIN_H

#include "run/rank/rank.h"

/* The origin, on the first rank that has one. */
struct zt_trace {
    int rank;               /* the rank of the origin */
    bool data;              /* the origin is in the data: `text` names the samples */
    char text[ZT_ERR_TEXT]; /* description without the step: "node "a" (Log) makes nan in "b"" */
};
/* Runs step `step` (from 0) again, which had a non-finite loss or gradient and therefore did not update the weights.
 * Collective: all ranks call it and get the same trace. The rank must not run further steps. If the device runs ahead,
 * the weights may be those of a later step. */
bool zt_rank_trace(struct zt_rank *r, int64_t step, struct zt_trace *trace, struct zt_err *err);
/* Runs an evaluation again whose loss was not finite. Collective in the same way; the rank may run on. */
bool zt_rank_trace_evaluation(struct zt_rank *r, struct zt_trace *trace, struct zt_err *err);
#endif
