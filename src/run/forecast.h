/* The forecast of a run: predicted step time and memory, compared with the measured ones. */
#ifndef ZT_RUN_FORECAST_H
#define ZT_RUN_FORECAST_H

#include "plan/plan.h"
#include "run/rank/rank.h"
#include "session/session.h"

/* Zero-initialise. Only rank 0 fills and prints it. */
struct zt_forecast {
    struct zt_plan *plan; /* owned */
    double
        *seconds; /* seconds of full steps without the first ones; the room for all of them is allocated at the start */
    int count;
    double latest;                    /* seconds of the latest full step */
    const struct zt_session *session; /* borrowed, like `folder` */
    const char *folder;
};

/* On rank 0, whose plan is `known`, plans the other stages and writes plan.txt to `folder`: for the named cluster, or
 * with nominal figures of this machine. */
bool zt_forecast_open(struct zt_forecast *f, const struct zt_session *s, const struct zt_rank_plan *known,
                      struct zt_device *device, const char *folder, struct zt_err *err);
/* Measures this machine after the first step, of a GPU only the files of offload, predicts the step time again and
 * writes plan.txt again on rank 0. Collective over `world`. Does nothing if the config names a cluster. */
bool zt_forecast_measure(struct zt_forecast *f, const struct zt_session *s, struct zt_device *device,
                         struct zt_comm *world, struct zt_rank *rank, struct zt_err *err);
/* Updates the forecast after `steps` timed steps of `run` (zt_rank_time). Collective over `world`. Unless the config
 * names a cluster, rank 0 predicts the step time again from the kernel times in the median step of each stage's slowest
 * rank. With --profile it prints and writes these times. */
bool zt_forecast_times(struct zt_forecast *f, const struct zt_rank *run, int steps, struct zt_comm *world,
                       struct zt_err *err);
/* Records the duration of step `step` (from 0) with `samples` samples. */
void zt_forecast_step(struct zt_forecast *f, int64_t step, int64_t samples, double seconds);
/* Prints one line after the first step of a run, `step` (from 1): the largest peak of a rank's process so far, the
 * blocks on a device, and what is planned of these. Collective over `world`. */
bool zt_forecast_memory(const struct zt_forecast *f, int64_t step, const struct zt_device *device,
                        struct zt_comm *world, struct zt_err *err);
/* Prints one line: predicted and measured step time and memory. */
void zt_forecast_report(const struct zt_forecast *f, const struct zt_session *s);
void zt_forecast_finish(struct zt_forecast *f);

#endif
