/* Records of a run besides metrics.jsonl and the progress lines: monitors (monitors.h), memory.jsonl, the lines of
 * wall_clock_breakdown and memory_breakdown. Every rank has one of these objects, because some records need the numbers
 * of all ranks; rank 0 prints and writes. */
#ifndef ZT_REPORT_OBSERVERS_H
#define ZT_REPORT_OBSERVERS_H

#include "plan/plan.h"
#include "report/memory.h"
#include "report/console.h"
#include "report/profiler.h"
#include "report/monitors.h"
#include "report/step_trace.h"
#include "report/wall_clock.h"
#include "run/rank/rank.h"
#include "run/timers/timers.h"
#include "session/session.h"

struct zt_observers_options {
    const struct zt_session *session; /* borrowed, like all pointers below */
    const struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_device *device;
    struct zt_comm *world;
    struct zt_console *console;   /* rank 0; NULL on other ranks */
    const struct zt_plan *stages; /* rank 0: the plan of all stages */
    const char *folder;           /* output folder of the run */
    int64_t first, steps;         /* steps done before this run; steps of the whole run */
    bool resumed;                 /* the run continues a checkpoint */
};

struct zt_observers {
    struct zt_observers_options o;
    struct zt_timers *timers;
    struct zt_monitors *monitors; /* rank 0 */
    struct zt_memory_file memory; /* rank 0 */
    struct zt_step_trace trace;
    struct zt_profiler profiler;
    struct zt_wall_clock_interval interval; /* rank 0 */
    struct zt_rank_progress progress;       /* rank 0: prints the memory lines within a step */
    int64_t samples;                        /* trained so far */
};

/* Creates the folders that the config names for records, `folder` being that of the run. Called by rank 0 before
 * anything of an earlier run is removed, so that a run that cannot write leaves it whole. */
bool zt_observers_prepare(const struct zt_config *config, const char *folder, struct zt_err *err);
/* Opens the files and prints what belongs to the start of a run. */
bool zt_observers_open(struct zt_observers *to, const struct zt_observers_options *options, struct zt_err *err);
/* Called before step `step` (from 0) begins. Collective. */
bool zt_observers_before(struct zt_observers *o, int64_t step, struct zt_err *err);
/* Whether step `step`, which has begun, must end before the next one begins. */
bool zt_observers_wait(const struct zt_observers *o, int64_t step);
/* Called after step `step` has ended. Collective. */
bool zt_observers_step(struct zt_observers *o, int64_t step, const struct zt_metrics_row *row, struct zt_err *err);
/* Called after zt_observers_step() and the measurement of the machine: profiles of the step. Collective. */
bool zt_observers_profile(struct zt_observers *o, int64_t step, int64_t samples, struct zt_err *err);
bool zt_observers_eval(struct zt_observers *o, double loss, double accuracy, struct zt_err *err);
/* Called after the last step. Collective. */
bool zt_observers_end(struct zt_observers *o, struct zt_err *err);
/* Writes all records to disk, before a checkpoint is saved. */
bool zt_observers_sync(struct zt_observers *o, struct zt_err *err);
/* Closes the files. Accepts a zeroed struct. */
bool zt_observers_finish(struct zt_observers *o, struct zt_err *err);

#endif
