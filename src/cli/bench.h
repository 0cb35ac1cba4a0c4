/* ztrain bench: one model and config under several parallel modes, numbers of ranks and batch sizes.
 *
 * Each combination is planned in this process and run as a child process of the same program, so that its peak memory
 * can be measured. bench.c iterates over the combinations, bench_predict.c plans one, bench_run.c runs one,
 * bench_table.c computes and prints the results, bench_page.c and bench_plot.c write the page. */
#ifndef ZT_CLI_BENCH_H
#define ZT_CLI_BENCH_H

#include "base/text.h"
#include "session/options.h"

/* The settings of a name in --modes: ddp, dp, zero1, zero2, zero3, or ppS[-SCHEDULE][-zeroN], a pipeline of S stages
 * with a schedule and a ZeRO stage that the config knows. */
enum { ZT_BENCH_SETS = 11, ZT_BENCH_WORD = 96 };
struct zt_bench_mode {
    char name[ZT_BENCH_WORD];
    char set[ZT_BENCH_SETS][ZT_BENCH_WORD]; /* "key.path=value"; "" after the last one */
    bool same_bits; /* one of the modes that give bitwise equal weights for equal numbers of ranks */
    bool pipeline;
};
/* Parses the name of a mode. Errors name it and list the valid names. */
bool zt_bench_mode(struct zt_bench_mode *mode, const char *name, struct zt_err *err);

/* One combination: the request, the plan, the measurements. Bytes are those of the rank with the most. */
struct zt_bench_row {
    const struct zt_bench_mode *mode;
    int ranks;
    int64_t batch;            /* samples of a step; 0: set by the config, known after planning */
    char reason[ZT_ERR_TEXT]; /* why it did not run; "": it ran */
    enum zt_exit code;        /* exit code of that reason */

    /* from the plan */
    int64_t micro_batch, accumulation;
    int64_t predicted_bytes; /* parameters, gradients, optimizer, activations, workspace */
    double planned_seconds;  /* of a step, for this machine's nominal figures or the named cluster */
    double sent_bytes;       /* bytes sent in collectives and messages of one step */
    double planned_bubble;   /* share of the stages' time without kernels or collectives; 0 without a pipeline */

    /* from the runs' own forecasts, which use measured kernels and links; means over the repeats */
    double forecast_seconds, forecast_bubble;

    /* measured over all repeats */
    double *seconds; /* seconds of the full steps after the warm-up */
    int count, room;
    int repeats;            /* number of completed repeats */
    int64_t measured_bytes; /* largest process memory of all ranks together, divided by the ranks */
    double loss;            /* loss of the last step */
    char weights[24];       /* hash of the trained tensors */
    bool unsteady;          /* repeats gave different hashes */

    /* computed by zt_bench_finish() */
    double median, low, high; /* seconds of a step: median and quartiles */
    double rate;              /* samples/s */
    double efficiency; /* rate / (ranks x rate of the first row with one rank and this batch); NAN if there is none */
};

struct zt_bench {
    const struct zt_options *options;
    struct zt_bench_mode *modes;
    int mode_count;
    struct zt_bench_row *rows;
    int row_count;
    int64_t steps; /* steps of a run */
    int warmup;    /* steps at the start of a run that are not counted */
    int repeats;   /* runs of each combination */
    char machine[256], when[40];
    struct zt_stop *stop; /* NULL: signals have their usual effect */
};

/* Returns the quantile `at` (0..1) of sorted values, with linear interpolation; NAN if count is 0. */
double zt_bench_quantile(const double *sorted, int count, double at);
/* Sorts the rows' seconds and computes their statistics. */
void zt_bench_finish(struct zt_bench_row *rows, int count);
/* Appends a sentence for each group of rows whose weights should be equal and are not. */
void zt_bench_warn(const struct zt_bench_row *rows, int count, struct zt_text *to);

/* Print the results: as an aligned table, and tab-separated with the same order of rows. */
void zt_bench_print(const struct zt_bench_row *rows, int count, FILE *to);
void zt_bench_write_tsv(const struct zt_bench_row *rows, int count, FILE *to);

/* Writes index.html; `plots` are its SVG elements. */
void zt_bench_write_page(const struct zt_bench *bench, const struct zt_text *plots, FILE *to);
/* Plots the rows with gnuplot and appends a <figure> each to `plots`; appends nothing if gnuplot is not installed.
 * `folder` is for scripts and pictures. */
bool zt_bench_plot(const struct zt_bench *bench, const char *folder, struct zt_text *plots, struct zt_err *err);

/* Computes the options of one combination from those of the command; `set` and `batch` are buffers of the caller for
 * the assignments. */
void zt_bench_overlay(const struct zt_bench *bench, const struct zt_bench_row *row, struct zt_options *options,
                      const char **set, char *batch);
enum { ZT_BENCH_EXTRA_SETS = ZT_BENCH_SETS + 4 }; /* number of assignments of an overlay */

/* Stores an error of the combination and its exit code as its reason. A key that the mode or the batch size sets is
 * named without the --set with which it is passed on. */
void zt_bench_refuse(struct zt_bench_row *row, enum zt_exit code, const char *error);

/* Plans the combination. If it is not possible, row->reason says why. */
void zt_bench_predict(const struct zt_bench *bench, struct zt_bench_row *row);

/* Runs the combination once in `folder`, which must not exist and is removed afterwards. `say` receives the number of
 * steps done. If the run fails, row->reason says why; `err` is for failures of bench itself and for a signal that
 * stops it, whose code it has without a message. */
struct zt_bench_progress {
    void (*say)(const struct zt_bench_progress *p, int64_t steps);
    const struct zt_bench *bench;
    const struct zt_bench_row *row;
    int run, runs;
    bool terminal;
};
bool zt_bench_run(const struct zt_bench *bench, struct zt_bench_row *row, const char *folder,
                  const struct zt_bench_progress *progress, struct zt_err *err);
/* Returns the signal that asks the command to stop (run/stop/stop.h); 0: none. */
int zt_bench_stopped(const struct zt_bench *bench);
/* Starts `argv` (ends with NULL) with both outputs to `log`; *pid is -1 if there is no such program. The child ends
 * with this process. */
bool zt_bench_start(char *const *argv, const char *log, int *pid, struct zt_err *err);
/* Removes a folder and its contents without following links. */
void zt_bench_remove(const char *folder);

#endif
