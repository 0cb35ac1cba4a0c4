#include "report/metrics_file.h"

#include "base/arena.h"
#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- rows ---- */

void zt_metrics_add_number(struct zt_text *to, const char *name, double value) {
    if (isfinite(value))
        zt_text_add(to, "\"%s\": %.9g", name, value);
    else
        zt_text_add(to, "\"%s\": null", name);
}

static void add_integer(struct zt_text *to, const char *name, int64_t value) {
    zt_text_add(to, "\"%s\": %lld", name, (long long)value);
}

static void add_step(struct zt_text *text, const struct zt_metrics_row *row) {
    zt_text_add(text, "{");
    add_integer(text, "step", row->step);
    zt_text_add(text, ", ");
    add_integer(text, "epoch", row->epoch);
    char scale[ZT_NUMBER_TEXT];
    const struct {
        const char *name;
        double value;
    } numbers[] = { { "loss", row->loss }, { "lr", row->lr }, { "grad_norm", row->grad_norm } };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        zt_text_add(text, ", ");
        zt_metrics_add_number(text, numbers[i].name, numbers[i].value);
    }
    zt_text_add(text, ", \"loss_scale\": %s, \"skipped\": %s, ", zt_format_number(scale, row->loss_scale),
                row->skipped ? "true" : "false");
    add_integer(text, "samples", row->samples);
    zt_text_add(text, ", ");
    zt_metrics_add_number(text, "seconds", row->seconds);
    zt_text_add(text, "}\n");
}

void zt_metrics_add_eval(struct zt_text *row, int64_t step, int64_t epoch, double loss, double accuracy) {
    zt_text_add(row, "{\"step\": %lld, \"epoch\": %lld, \"eval\": true, ", (long long)step, (long long)epoch);
    zt_metrics_add_number(row, "loss", loss);
    if (!isnan(accuracy)) {
        zt_text_add(row, ", ");
        zt_metrics_add_number(row, "accuracy", accuracy);
    }
    zt_text_add(row, "}\n");
}

double zt_metrics_number(const char *line, const char *name) {
    char key[40];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(line, key);
    return at && strncmp(at + strlen(key), "null", 4) != 0 ? strtod(at + strlen(key), NULL) : NAN;
}

bool zt_metrics_is_eval(const char *line) {
    return strstr(line, "\"eval\": true") != NULL;
}

/* ---- the file ---- */

bool zt_metrics_file_open(struct zt_append_file *to, const char *folder, int64_t resumed, struct zt_err *err) {
    char *path = zt_path_join(folder, "metrics.jsonl");
    if (resumed < 0) /* a new file, even if the old file has other hard links */
        unlink(path);
    bool ok =
        (resumed < 0 || zt_metrics_truncate(path, resumed, err)) && zt_append_file_open(to, path, resumed < 0, err);
    free(path);
    return ok;
}

bool zt_metrics_file_step(struct zt_append_file *file, const struct zt_metrics_row *row, struct zt_err *err) {
    add_step(&file->pending, row);
    return zt_append_file_flush(file, false, err);
}

bool zt_metrics_file_eval(struct zt_append_file *file, int64_t step, int64_t epoch, double loss, double accuracy,
                          struct zt_err *err) {
    zt_metrics_add_eval(&file->pending, step, epoch, loss, accuracy);
    return zt_append_file_flush(file, false, err);
}

/* ---- truncation ---- */

/* Returns the step of a row written by this program; -1: another line. */
static int64_t row_step(const char *row, size_t bytes) {
    static const char start[] = "{\"step\": ";
    size_t n = sizeof start - 1;
    int64_t step = 0;
    if (bytes <= n || memcmp(row, start, n) != 0)
        return -1;
    for (; n < bytes && row[n] >= '0' && row[n] <= '9'; n++)
        if (__builtin_mul_overflow(step, 10, &step) || __builtin_add_overflow(step, row[n] - '0', &step))
            return -1;
    return n < bytes && row[n] == ',' ? step : -1;
}

/* Writes the remaining rows to a new file, so that hard links of the old file (`cp -al` of a run) keep their contents.
 */
bool zt_metrics_truncate(const char *path, int64_t step, struct zt_err *err) {
    struct zt_file_map map;
    size_t keep = 0;
    if (!zt_file_exists(path))
        return true;
    if (!zt_file_map(&map, path, ZT_EXIT_DATA, err))
        return false;
    while (keep < map.size) { /* also removes an incomplete line of a killed program */
        const char *row = (const char *)map.data + keep, *end = memchr(row, '\n', map.size - keep);
        int64_t at = end ? row_step(row, (size_t)(end - row)) : -1;
        if (at < 0 || at > step)
            break;
        keep += (size_t)(end + 1 - row);
    }
    bool ok = (keep == map.size && zt_file_links(path) == 1) || zt_file_write(path, map.data, keep, err);
    return zt_file_close(&map, ok, err);
}
