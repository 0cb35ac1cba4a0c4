/* Reading of the runs of ztrain report. */
#include "cli/report_runs.h"

#include "base/arena.h"
#include "base/file.h"
#include "report/metrics_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 4096 };

/* ---- series ---- */

/* Joins pairs of points. */
static void halve(struct zt_run_series *s) {
    for (int i = 0; i < s->count / 2; i++) {
        const struct zt_run_point a = s->at[2 * i], b = s->at[2 * i + 1];
        const double values = (double)(a.values + b.values);
        s->at[i] = (struct zt_run_point){
            .step = b.step,
            .mean = a.mean * ((double)a.values / values) + b.mean * ((double)b.values / values),
            .low = fmin(a.low, b.low),
            .high = fmax(a.high, b.high),
            .values = a.values + b.values,
        };
    }
    s->count /= 2;
    s->width *= 2;
}

/* Values that are not finite are left out. */
static void add_value(struct zt_run_series *s, double step, double value) {
    if (!isfinite(value) || !isfinite(step))
        return;
    s->width = s->width ? s->width : 1;
    if (s->count == 0 || s->at[s->count - 1].values == s->width) {
        if (s->count == ZT_RUN_POINTS)
            halve(s);
        s->at[s->count++] = (struct zt_run_point){ .low = value, .high = value };
    }
    struct zt_run_point *p = &s->at[s->count - 1];
    p->step = step;
    p->values++;
    p->mean += (value - p->mean) / (double)p->values;
    p->low = fmin(p->low, value);
    p->high = fmax(p->high, value);
}

/* ---- rows ---- */

static int64_t whole(double value) {
    return value >= 0 && value < 9e15 ? (int64_t)value : 0;
}

static void add_eval(struct zt_run *r, double step, const char *line) {
    const double loss = zt_metrics_number(line, "loss"), accuracy = zt_metrics_number(line, "accuracy");
    add_value(&r->series[ZT_RUN_EVAL_LOSS], step, loss);
    add_value(&r->series[ZT_RUN_ACCURACY], step, accuracy);
    r->best_loss = fmin(r->best_loss, loss); /* fmin() ignores a NAN */
    r->best_accuracy = fmax(r->best_accuracy, accuracy);
}

static void add_step(struct zt_run *r, double step, const char *line) {
    const double samples = zt_metrics_number(line, "samples"), seconds = zt_metrics_number(line, "seconds");
    r->steps = whole(step);
    r->epoch = whole(zt_metrics_number(line, "epoch"));
    r->skipped += strstr(line, "\"skipped\": true") != NULL;
    r->loss = zt_metrics_number(line, "loss");
    add_value(&r->series[ZT_RUN_LOSS], step, r->loss);
    add_value(&r->series[ZT_RUN_LR], step, zt_metrics_number(line, "lr"));
    add_value(&r->series[ZT_RUN_GRAD_NORM], step, zt_metrics_number(line, "grad_norm"));
    if (!(samples > 0 && seconds > 0))
        return;
    add_value(&r->series[ZT_RUN_RATE], step, samples / seconds);
    r->samples += samples;
    r->seconds += seconds;
}

static void add_metrics(struct zt_run *r, double step, const char *line) {
    if (zt_metrics_is_eval(line))
        add_eval(r, step, line);
    else
        add_step(r, step, line);
}

static void add_memory(struct zt_run *r, double step, const char *line) {
    const double bytes = zt_metrics_number(line, "memory") + fmax(zt_metrics_number(line, "device"), 0);
    add_value(&r->series[ZT_RUN_MEMORY], step, bytes);
    r->peak = fmax(r->peak, bytes);
}

typedef void adder(struct zt_run *r, double step, const char *line);

static void add_row(struct zt_run *r, double step, const char *line, adder *add) {
    r->last = fmax(r->last, step);
    add(r, step, line);
}

/* Reads the rows of a file, which begin with their step. */
static bool read_rows(struct zt_run *r, const char *path, adder *add, struct zt_err *err) {
    char line[LONGEST_LINE + 1];
    struct zt_file_map map;
    if (!zt_file_map(&map, path, ZT_EXIT_DATA, err))
        return false;
    const char *at = (const char *)map.data, *end = at + map.size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((stop ? stop : end) - at);
        const bool fits = n > 0 && n <= LONGEST_LINE;
        memcpy(line, at, fits ? n : 0);
        line[fits ? n : 0] = 0;
        const double step = strncmp(line, "{\"step\": ", 9) == 0 ? zt_metrics_number(line, "step") : NAN;
        if (step > 0 && step < 1e15 && line[n - 1] == '}')
            add_row(r, step, line, add);
        else
            r->broken++;
        at += n + 1;
    }
    return zt_file_close(&map, true, err);
}

bool zt_run_read(struct zt_run *r, const char *folder, struct zt_err *err) {
    char *metrics = zt_path_join(folder, "metrics.jsonl"), *memory = zt_path_join(folder, "memory.jsonl");
    *r = (struct zt_run){ .folder = folder, .loss = NAN, .best_loss = NAN, .best_accuracy = NAN, .peak = NAN };
    r->series = zt_calloc(ZT_RUN_KINDS, sizeof *r->series);
    bool ok =
        zt_file_exists(metrics) || zt_fail(err, ZT_EXIT_DATA, "%s: the folder holds no run (metrics.jsonl)", folder);
    ok = ok && read_rows(r, metrics, add_metrics, err) &&
         (r->last > 0 || !r->broken ||
          zt_fail(err, ZT_EXIT_DATA, "%s: none of its %lld lines is a row of a run", metrics, (long long)r->broken)) &&
         (!zt_file_exists(memory) || read_rows(r, memory, add_memory, err));
    const struct zt_run_series *m = &r->series[ZT_RUN_MEMORY];
    if (ok && m->count && (double)r->steps > m->at[m->count - 1].step) /* a row is written when the memory changes */
        add_value(&r->series[ZT_RUN_MEMORY], (double)r->steps, m->at[m->count - 1].mean);
    free(metrics);
    free(memory);
    return ok;
}

void zt_run_finish(struct zt_run *r) {
    free(r->series);
    r->series = NULL;
}
