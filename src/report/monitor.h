/* The output of a run during training, on rank 0: console lines or a progress bar, and metrics.jsonl. */
#ifndef ZT_REPORT_MONITOR_H
#define ZT_REPORT_MONITOR_H

#include "base/err.h"
#include "base/log.h"
#include "config/config.h"
#include "report/metrics_file.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_monitor_options {
    const struct zt_config *config;
    const struct zt_log *log;
    const char *folder;  /* folder of metrics.jsonl; NULL: not written */
    int64_t steps_total; /* steps of the run */
    int64_t batches_per_epoch;
    int columns; /* width of the terminal on standard error; 0: detect */
    bool quiet;
    int64_t resumed, skipped; /* steps done and skipped before; resumed -1: a new run, metrics.jsonl is truncated */
};

struct zt_monitor;

/* Opens metrics.jsonl and the console output. Returns NULL with an error if the file cannot be written. */
struct zt_monitor *zt_monitor_create(const struct zt_monitor_options *options, struct zt_err *err);
/* Writes and flushes a row and prints the console line or the bar if it is due. `batch`: index of the step in its
 * epoch, from 0. */
bool zt_monitor_step(struct zt_monitor *m, const struct zt_metrics_row *row, int64_t batch, struct zt_err *err);
/* Writes {"step": .., "epoch": .., "eval": true, "loss": .., "accuracy": ..} and prints one console line. An accuracy
 * of NAN is omitted. */
bool zt_monitor_eval(struct zt_monitor *m, int64_t step, int64_t epoch, double loss, double accuracy,
                     struct zt_err *err);
/* Prints one console line about a saved checkpoint of `bytes` bytes. `path`: its folder. Accepts a NULL monitor. */
void zt_monitor_checkpoint(struct zt_monitor *m, int64_t step, const char *path, int64_t bytes);
/* Flushes metrics.jsonl to disk. Accepts NULL. */
bool zt_monitor_sync(struct zt_monitor *m, struct zt_err *err);
/* Removes the bar from the terminal so that a line can be printed; the next step shows it again. Accepts NULL. */
void zt_monitor_clear(struct zt_monitor *m);
/* Ends the bar, closes the file and frees `m`. Reports write errors. Accepts NULL. */
bool zt_monitor_finish(struct zt_monitor *m, struct zt_err *err);

#endif
