/* The steps of a run as a Chrome trace (chrome://tracing, Perfetto): ztrain.monitor.trace_steps. trace.json has one
 * process per rank with one row: the step, in it its instructions without gaps, in them nodes and waits for other
 * ranks. Beside a GPU a second row has what the host does for offloading, on its own clock. Times are microseconds
 * since the first traced step began, when all ranks met at a barrier. */
#ifndef ZT_REPORT_STEP_TRACE_H
#define ZT_REPORT_STEP_TRACE_H

#include "base/text.h"
#include "parallel/comm/comm.h"
#include "parallel/partition/grid.h"
#include "run/timers/timers.h"

/* Zero-initialise. */
struct zt_step_trace {
    double base;           /* time 0 of the trace, from zt_now() */
    struct zt_text events; /* of this rank, as JSON with a comma in front of each */
    bool written, host;    /* host: the second row has its name */
};

/* Starts the clock of the trace. Collective. */
bool zt_step_trace_begin(struct zt_step_trace *trace, struct zt_comm *world, struct zt_err *err);
/* Adds the timers of a step. */
void zt_step_trace_add(struct zt_step_trace *trace, const struct zt_step_timers *timers, int rank);
/* Gathers the events of all ranks on rank 0, which writes trace.json into `folder`. Collective. */
bool zt_step_trace_write(struct zt_step_trace *trace, struct zt_comm *world, const struct zt_grid *grid,
                         const char *folder, struct zt_err *err);
void zt_step_trace_finish(struct zt_step_trace *trace);

#endif
