/* metrics.jsonl: a row for every optimizer step and every evaluation. Writing of the rows, reading of their numbers,
 * and truncation for a resumed run. */
#ifndef ZT_REPORT_METRICS_FILE_H
#define ZT_REPORT_METRICS_FILE_H

#include "base/text.h"
#include "optim/loss_scale.h"
#include "optim/optim.h"
#include "report/append_file.h"

#include <stdbool.h>
#include <stdint.h>

/* One optimizer step, with the fields of metrics.jsonl; `step` counts from 1. */
struct zt_metrics_row {
    int64_t step, epoch, samples;
    double loss, lr, grad_norm, loss_scale, seconds;
    struct zt_rate next; /* of the step after this one */
    const struct zt_lr_state *lr_state;
    struct zt_scaling scaling; /* state after the step */
    int micro_batches;         /* of a rank */
    size_t allocated, peak;    /* bytes of the rank's blocks: now; most (struct zt_device) */
    bool skipped;
    const struct zt_overflow *overflow; /* of a skipped step; NULL: not looked for */
};

/* Opens metrics.jsonl in `folder`. resumed: rows after this step are removed; -1: the file is new. */
bool zt_metrics_file_open(struct zt_append_file *to, const char *folder, int64_t resumed, struct zt_err *err);
/* Writes the row of a step with one write(), so that readers see whole lines. Does nothing for a closed file.
 */
bool zt_metrics_file_step(struct zt_append_file *file, const struct zt_metrics_row *row, struct zt_err *err);
/* Writes the row of an evaluation, as zt_metrics_add_eval() has it. */
bool zt_metrics_file_eval(struct zt_append_file *file, int64_t step, int64_t epoch, double loss, double accuracy,
                          struct zt_err *err);

/* Appends {"step": .., "epoch": .., "eval": true, "loss": .., "accuracy": ..} and the end of the line. An accuracy of
 * NAN is omitted. */
void zt_metrics_add_eval(struct zt_text *row, int64_t step, int64_t epoch, double loss, double accuracy);
/* Appends a field of an object. JSON has no non-finite numbers, which become null. */
void zt_metrics_add_number(struct zt_text *to, const char *name, double value);

/* Returns the number after "name": in a row of metrics.jsonl or memory.jsonl; NAN: none, or null. */
double zt_metrics_number(const char *line, const char *name);
/* Whether the row is that of an evaluation. */
bool zt_metrics_is_eval(const char *line);

/* Removes the rows of metrics.jsonl or memory.jsonl after step `step`, if the file exists. */
bool zt_metrics_truncate(const char *path, int64_t step, struct zt_err *err);

#endif
