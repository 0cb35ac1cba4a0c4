/* Where the first number that is not finite comes from: the step is run once more, and what every node gives is looked
 * at. */
#ifndef ZT_RUN_TRACE_H
#define ZT_RUN_TRACE_H

#include "run/rank/rank.h"

/* What made it, on the first rank that has one. */
struct zt_trace {
    int rank;               /* that rank */
    bool data;              /* it is in the data: `text` names the samples */
    char text[ZT_ERR_TEXT]; /* one fact, without the step: "node "a" (Log) makes nan in "b"" */
};
/* Runs step `step` (from 0), whose loss or gradient was not finite and which therefore left no update. Collective: all
 * ranks call it and get the same trace. The rank runs no further step afterwards. Where the device runs ahead, the
 * weights may be those of a later step. */
bool zt_rank_trace(struct zt_rank *r, int64_t step, struct zt_trace *trace, struct zt_err *err);
#endif
