/* The step loop of one rank: step, step, step, and what follows a step (evaluation, checkpoint, measurements). */
#ifndef ZT_TRAIN_STEPS_H
#define ZT_TRAIN_STEPS_H

#include "checkpoint/checkpoint.h"
#include "data/loader.h"
#include "report/monitor.h"
#include "run/finite.h"
#include "run/kernel_times.h"
#include "run/worker.h"

/* One rank of this process. */
struct zt_training {
    struct zt_worker worker; /* first: its thread knows it by that */
    struct zt_session *session;
    const char *folder, *from;
    int64_t first, steps, per_epoch;
    int stopped; /* by this signal; 0: not */
    struct zt_skips skips;
    struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_loader *loader;
    struct zt_checkpoints *checkpoints;
    struct zt_monitor *monitor;  /* rank 0 */
    struct zt_forecast forecast; /* rank 0 */
    struct zt_kernel_times times;
    double looked; /* when mapped files were last looked after */
};

/* Names what the rank does, for messages about ranks that hang. */
void zt_training_phase(struct zt_training *t, const char *name);
/* From the first step to the end of the run, or until a signal stops it (t->stopped). */
bool zt_training_steps(struct zt_training *t, struct zt_err *err);

#endif
