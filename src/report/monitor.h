/* What a run says and leaves while it trains: console lines or progress bar, and metrics.jsonl. Rank 0 only. */
#ifndef ZT_REPORT_MONITOR_H
#define ZT_REPORT_MONITOR_H

#include "base/err.h"
#include "base/log.h"
#include "config/config.h"
#include "optim/scale.h"

#include <stdbool.h>
#include <stdint.h>

/* One optimizer step. Fields as metrics.jsonl names them (contract.md, "What a run leaves"); step from 1. */
struct zt_metrics_row {
    int64_t step, epoch, samples;
    double loss, lr, grad_norm, loss_scale, seconds;
    struct zt_scaling scaling; /* behind the step */
    bool skipped;
};

struct zt_monitor_options {
    const struct zt_config *config;
    const struct zt_log *log;
    const char *folder;  /* metrics.jsonl goes there; NULL: none is written */
    int64_t steps_total; /* of the run */
    int64_t batches_per_epoch;
    int columns; /* of the terminal behind standard error; 0: find out */
    bool quiet;
    int64_t resumed, skipped; /* steps done and skipped before; resumed -1: the run begins, and so does metrics.jsonl */
};

struct zt_monitor;

struct zt_monitor *zt_monitor_create(const struct zt_monitor_options *options, struct zt_err *err);
/* Writes the row (flushed at once) and, when it is due, the console line or the bar; batch: index of the step in its
 * epoch, from 0. */
bool zt_monitor_step(struct zt_monitor *m, const struct zt_metrics_row *row, int64_t batch, struct zt_err *err);
/* {"step": .., "epoch": .., "eval": true, "loss": .., "accuracy": ..} and one console line; accuracy NAN: left out. */
bool zt_monitor_eval(struct zt_monitor *m, int64_t step, int64_t epoch, double loss, double accuracy,
                     struct zt_err *err);
/* One console line about a checkpoint of `bytes` bytes saved in `folder`. NULL is harmless. */
void zt_monitor_checkpoint(struct zt_monitor *m, int64_t step, const char *folder, int64_t bytes);
/* Brings metrics.jsonl to the disk. NULL is harmless. */
bool zt_monitor_sync(struct zt_monitor *m, struct zt_err *err);
/* Drops the rows of metrics.jsonl behind step `step`; harmless where there is no such file. */
bool zt_monitor_truncate(const char *path, int64_t step, struct zt_err *err);
/* Takes the bar off the terminal so that somebody else can say a line; it comes back with the next step. NULL is
 * harmless. */
void zt_monitor_clear(struct zt_monitor *m);
/* Ends the bar, closes the file and frees; reports write errors. NULL is harmless. */
bool zt_monitor_finish(struct zt_monitor *m, struct zt_err *err);

#endif
