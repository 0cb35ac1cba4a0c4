/* ztrain bench: one model and config under several parallel modes, numbers of ranks and batch sizes.
 *
 * Each combination is planned in this process and run as a child of it, the same program with other words, so that its
 * peak memory is its own. bench.c walks the combinations, bench_predict.c plans one, bench_run.c runs one,
 * bench_table.c makes numbers of what was measured, bench_page.c and bench_plot.c show them. */
#ifndef ZT_CLI_BENCH_H
#define ZT_CLI_BENCH_H

#include "base/text.h"
#include "session/options.h"

/* What a name of --modes sets: ddp, dp, zero1, zero2, zero3, and ppS[-SCHEDULE][-zeroN], a pipeline of S stages. */
enum { ZT_BENCH_SETS = 4, ZT_BENCH_WORD = 96 };
struct zt_bench_mode {
    char name[ZT_BENCH_WORD];
    char set[ZT_BENCH_SETS][ZT_BENCH_WORD]; /* "key.path=value", one after the other; "" behind the last */
    bool same_bits; /* one of those that promise the same weights bit for bit at an equal number of ranks */
    bool pipeline;
};
/* Errors name the mode and what would do. */
bool zt_bench_mode(struct zt_bench_mode *mode, const char *name, struct zt_err *err);

/* One combination: what was asked for, what the plan says, what was measured. Bytes are of the rank with most. */
struct zt_bench_row {
    const struct zt_bench_mode *mode;
    int ranks;
    int64_t batch;            /* samples of a step; 0 until planned, where the config decides */
    char reason[ZT_ERR_TEXT]; /* why there is nothing; "": it ran */

    /* planned */
    int64_t micro_batch, accumulation;
    int64_t predicted_bytes; /* parameters, gradients, optimizer, activations, workspace */
    double planned_seconds;  /* of a step, with nominal figures of the machine or those of the named cluster */
    double sent_bytes;       /* in collectives and messages of one step */
    double planned_bubble;   /* share of the stages' time in which neither kernel nor collective runs; 0 without a
                                pipeline */

    /* forecast by the runs themselves, whose plan knows what their own kernels and links take; means over the repeats
     */
    double forecast_seconds, forecast_bubble;

    /* measured, over all repeats */
    double *seconds; /* of the full steps behind the warm-up */
    int count, room;
    int repeats;            /* that ran to their end */
    int64_t measured_bytes; /* largest resident memory over the ranks' processes, divided by the ranks */
    double loss;            /* of the last step */
    char weights[24];       /* the hash of the trained tensors */
    bool unsteady;          /* a repeat gave another hash */

    /* made of them by zt_bench_finish() */
    double median, low, high; /* seconds of a step: median and quartiles */
    double rate;              /* samples/s */
    double efficiency; /* rate / (ranks x rate of the first row with one rank and this batch); NAN without such a row */
};

struct zt_bench {
    const struct zt_options *options;
    struct zt_bench_mode *modes;
    int mode_count;
    struct zt_bench_row *rows;
    int row_count;
    int64_t steps; /* of a run */
    int warmup;    /* steps at the begin of a run that are not counted */
    int repeats;   /* runs of a combination */
    char machine[256], when[40];
};

/* The value below which the share `at` (0..1) of the sorted values lies, between two of them interpolated linearly;
 * NAN of none. */
double zt_bench_quantile(const double *sorted, int count, double at);
/* Sorts the rows' seconds and fills what is made of them. */
void zt_bench_finish(struct zt_bench_row *rows, int count);
/* A sentence for each group of rows whose weights should agree and do not; nothing is added where all is well. */
void zt_bench_warn(const struct zt_bench_row *rows, int count, struct zt_text *to);

/* The results: aligned for reading, and with tabs between the columns under the same order of rows. */
void zt_bench_print(const struct zt_bench_row *rows, int count, FILE *to);
void zt_bench_write_tsv(const struct zt_bench_row *rows, int count, FILE *to);

/* Text for HTML: & < > " ' become entities, control characters but newline and tab question marks. */
void zt_bench_escape(struct zt_text *to, const char *text);
/* index.html; `plots`: SVG elements to stand in it. */
void zt_bench_write_page(const struct zt_bench *bench, const struct zt_text *plots, FILE *to);
/* Has gnuplot draw the rows: adds one <figure> each to `plots`, nothing where there is no gnuplot. `folder` is for
 * its scripts and pictures. */
bool zt_bench_plot(const struct zt_bench *bench, const char *folder, struct zt_text *plots, struct zt_err *err);

/* Options of one combination, laid over those of the command; `set` is the caller's room for the assignments. */
void zt_bench_overlay(const struct zt_bench *bench, const struct zt_bench_row *row, struct zt_options *options,
                      const char **set, char *batch);
enum { ZT_BENCH_EXTRA_SETS = ZT_BENCH_SETS + 3 }; /* assignments that an overlay adds */

/* Plans the combination. Where the program refuses it, the row has the reason. */
void zt_bench_predict(const struct zt_bench *bench, struct zt_bench_row *row);

/* Runs it once in `folder`, which must not exist and is removed again. `say` is told how many steps are done. A run
 * that fails gives the row its reason; an error is what concerns bench itself. */
struct zt_bench_progress {
    void (*say)(const struct zt_bench_progress *p, int64_t steps);
    const struct zt_bench *bench;
    const struct zt_bench_row *row;
    int run, runs;
    bool terminal;
};
bool zt_bench_run(const struct zt_bench *bench, struct zt_bench_row *row, const char *folder,
                  const struct zt_bench_progress *progress, struct zt_err *err);
/* Starts `argv` (ends with NULL) with both outputs into `log`; *pid -1: there is no such program. It ends with this
 * process. */
bool zt_bench_start(char *const *argv, const char *log, int *pid, struct zt_err *err);
/* Removes a folder and all in it, following no link. */
void zt_bench_remove(const char *folder);

#endif
