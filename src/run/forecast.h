/* A run's own prediction held against what it takes: step time and bytes. */
#ifndef ZT_RUN_FORECAST_H
#define ZT_RUN_FORECAST_H

#include "plan/plan.h"
#include "run/rank/rank.h"
#include "session/session.h"

/* Zero-initialise. Only rank 0 fills and reports it. */
struct zt_forecast {
    struct zt_plan *plan; /* owned */
    double *seconds; /* of full steps, the first ones left out; room for all that are kept is there from the begin */
    int count;
    double latest;                    /* seconds of the last full step */
    const struct zt_session *session; /* borrowed, as is the folder */
    const char *folder;
};

/* Rank 0, whose plan is `known`, plans the other stages too and writes plan.txt into `folder`: for the named cluster,
 * or with nominal figures of this machine. */
bool zt_forecast_open(struct zt_forecast *f, const struct zt_session *s, const struct zt_rank_plan *known,
                      struct zt_device *device, const char *folder, struct zt_err *err);
/* Collective over `world`, behind the first step, which should not wait for it: measures this machine, predicts anew
 * and writes plan.txt again, at rank 0. Nothing is done where a cluster is named. */
bool zt_forecast_measure(struct zt_forecast *f, const struct zt_session *s, struct zt_device *device,
                         struct zt_comm *world, const char *folder, struct zt_err *err);
/* Collective over `world`, when `run` has been timed (zt_rank_time) for `steps` steps: predicts anew with what the
 * kernels of each stage's slowest rank took in the median one, where no cluster is named, and with --profile says and
 * writes these times, at rank 0. */
bool zt_forecast_times(struct zt_forecast *f, const struct zt_rank_plan *own, const struct zt_rank *run, int steps,
                       struct zt_comm *world, struct zt_err *err);
/* A step took so long; `step` from 0, `samples` of it. */
void zt_forecast_step(struct zt_forecast *f, int64_t step, int64_t samples, double seconds);
/* One line: predicted and measured step time and bytes. */
void zt_forecast_report(const struct zt_forecast *f, const struct zt_session *s);
void zt_forecast_finish(struct zt_forecast *f);

#endif
