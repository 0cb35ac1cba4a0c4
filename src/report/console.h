/* The output of a run while it trains, on rank 0: console lines or a progress bar; it writes metrics.jsonl as well. */
#ifndef ZT_REPORT_CONSOLE_H
#define ZT_REPORT_CONSOLE_H

#include "base/err.h"
#include "base/log.h"
#include "config/config.h"
#include "report/metrics_file.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_console_options {
    const struct zt_config *config;
    const struct zt_log *log;
    const char *folder;  /* folder of metrics.jsonl; NULL: not written */
    int64_t steps_total; /* steps of the run */
    int64_t batches_per_epoch;
    int columns; /* width of the terminal on standard error; 0: detect */
    bool quiet;
    int64_t resumed, skipped; /* steps done and skipped before; resumed -1: a new run, metrics.jsonl is truncated */
};

struct zt_console;

/* Opens metrics.jsonl and the console output. Returns NULL with an error if the file cannot be written. */
struct zt_console *zt_console_create(const struct zt_console_options *options, struct zt_err *err);
/* Prints DeepSpeed's line of step 0, which has the rates of the first step, where the lines of later steps are printed.
 * Called before the first step of a run that does not resume. Accepts NULL. */
void zt_console_begin(struct zt_console *c);
/* Writes and flushes a row and prints the console line or the bar if it is due. `batch`: index of the step in its
 * epoch, from 0. */
bool zt_console_step(struct zt_console *c, const struct zt_metrics_row *row, int64_t batch, struct zt_err *err);
/* Writes {"step": .., "epoch": .., "eval": true, "loss": .., "accuracy": ..} and prints one console line. An accuracy
 * of NAN is omitted. */
bool zt_console_eval(struct zt_console *c, int64_t step, int64_t epoch, double loss, double accuracy,
                     struct zt_err *err);
/* Prints one console line about a saved checkpoint of `bytes` bytes. `path`: its folder. Accepts NULL. */
void zt_console_checkpoint(struct zt_console *c, int64_t step, const char *path, int64_t bytes);
/* Prints that signal `number` has stopped the run. Accepts NULL. */
void zt_console_stopped(struct zt_console *c, int number);
/* Flushes metrics.jsonl to disk. Accepts NULL. */
bool zt_console_sync(struct zt_console *c, struct zt_err *err);
/* Removes the bar from the terminal so that a line can be printed; the next step shows it again. Accepts NULL. */
void zt_console_clear(struct zt_console *c);
/* Ends the bar, closes the file and frees `c`. Reports write errors. Accepts NULL. */
bool zt_console_finish(struct zt_console *c, struct zt_err *err);

#endif
