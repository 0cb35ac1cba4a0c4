/* Runs as ztrain report reads and draws them. */
#ifndef ZT_CLI_REPORT_RUNS_H
#define ZT_CLI_REPORT_RUNS_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Curves over the steps. */
enum zt_run_kind {
    ZT_RUN_LOSS,
    ZT_RUN_EVAL_LOSS,
    ZT_RUN_ACCURACY,
    ZT_RUN_LR,
    ZT_RUN_GRAD_NORM,
    ZT_RUN_RATE,   /* samples a second */
    ZT_RUN_MEMORY, /* bytes */
    ZT_RUN_KINDS
};

/* Neighbouring values of a series, joined so that a series of any length has at most ZT_RUN_POINTS points. */
struct zt_run_point {
    double step; /* of the last value */
    double mean, low, high;
    int64_t values;
};
enum { ZT_RUN_POINTS = 1024 };
struct zt_run_series {
    struct zt_run_point at[ZT_RUN_POINTS];
    int count;
    int64_t width; /* values of a whole point */
};

struct zt_run {
    const char *folder;                    /* borrowed */
    struct zt_run_series *series;          /* [ZT_RUN_KINDS] */
    int64_t steps, epoch, skipped, broken; /* last step and epoch; skipped steps; lines that are no rows */
    double loss, best_loss, best_accuracy; /* last loss; of the evaluations; NAN: unknown */
    double samples, seconds, peak;         /* sums over the steps; largest memory */
    double last;                           /* largest step of all rows */
};

/* Reads metrics.jsonl and memory.jsonl of the run in `folder`, a line at a time. A folder without metrics.jsonl is an
 * error, and so are lines none of which is a row; others that are none are counted. Free with zt_run_finish(), also
 * after an error. */
bool zt_run_read(struct zt_run *run, const char *folder, struct zt_err *err);
void zt_run_finish(struct zt_run *run);

/* A figure: a line for each run, and a dashed one for a second kind (ZT_RUN_KINDS: none). */
struct zt_run_figure {
    const char *title, *unit;
    enum zt_run_kind kind, dashed;
};
enum { ZT_RUN_COLOURS = 8 }; /* CSS classes c0 .. c7 */
/* Writes an SVG element; writes nothing and returns false if no run has values. */
bool zt_run_draw(const struct zt_run *runs, int count, const struct zt_run_figure *figure, FILE *to);

#endif
