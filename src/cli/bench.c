/* ztrain bench: iterates over the combinations. */
#include "cli/commands.h"
#include "cli/bench.h"

#include "base/file.h"
#include "base/folder_lock.h"
#include "base/vec.h"
#include "device/threads.h"
#include "run/stop/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- lists ---- */

typedef ZT_VEC(char *) names;

/* Splits "a,b,c"; the caller frees each part. */
static names split(const char *list) {
    names parts = { 0 };
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        char *part = zt_malloc(n + 1);
        memcpy(part, at, n);
        part[n] = 0;
        zt_vec_push(&parts, part);
        at += n;
        if (!*at)
            return parts;
    }
}

static void finish_names(names *parts) {
    for (int i = 0; i < parts->count; i++)
        free(parts->at[i]);
    zt_vec_finish(parts);
}

typedef ZT_VEC(int64_t) numbers;

static bool read_numbers(const char *option, const char *list, int64_t most, numbers *to, struct zt_err *err) {
    names parts = split(list);
    bool ok = true;
    for (int i = 0; ok && i < parts.count; i++) {
        int64_t number = 0;
        if (!zt_text_number(parts.at[i], &number) || number < 1 || number > most)
            ok = zt_fail(err, ZT_EXIT_CONFIG, "--%s: \"%s\", allowed: comma-separated whole numbers from 1 to %lld",
                         option, parts.at[i], (long long)most);
        for (int k = 0; ok && k < to->count; k++)
            if (to->at[k] == number)
                ok = zt_fail(err, ZT_EXIT_CONFIG, "--%s: %s is named twice", option, parts.at[i]);
        zt_vec_push(to, number);
    }
    finish_names(&parts);
    return ok;
}

static bool read_modes(struct zt_bench *b, const char *list, struct zt_err *err) {
    names parts = split(list);
    bool ok = true;
    b->modes = zt_calloc((size_t)parts.count, sizeof *b->modes);
    b->mode_count = parts.count;
    for (int i = 0; ok && i < parts.count; i++) {
        ok = zt_bench_mode(&b->modes[i], parts.at[i], err);
        for (int k = 0; ok && k < i; k++)
            if (strcmp(parts.at[k], parts.at[i]) == 0)
                ok = zt_fail(err, ZT_EXIT_CONFIG, "--modes: \"%s\" is named twice", parts.at[i]);
    }
    finish_names(&parts);
    return ok;
}

static bool make_rows(struct zt_bench *b, struct zt_err *err) {
    const struct zt_options *o = b->options;
    numbers ranks = { 0 }, batches = { 0 };
    bool ok = read_modes(b, o->modes, err) && read_numbers("ranks", o->rank_list, 65536, &ranks, err) &&
              (!o->batch_sizes || read_numbers("batch-sizes", o->batch_sizes, INT64_MAX, &batches, err));
    if (batches.count == 0)
        zt_vec_push(&batches, 0); /* the batch size of the config */
    b->rows = zt_calloc((size_t)b->mode_count * (size_t)ranks.count * (size_t)batches.count + 1, sizeof *b->rows);
    for (int n = 0; ok && n < batches.count; n++)
        for (int r = 0; r < ranks.count; r++)
            for (int m = 0; m < b->mode_count; m++)
                b->rows[b->row_count++] =
                    (struct zt_bench_row){ .mode = &b->modes[m], .ranks = (int)ranks.at[r], .batch = batches.at[n] };
    zt_vec_finish(&ranks);
    zt_vec_finish(&batches);
    return ok;
}

/* ---- the command ---- */

static void say_progress(const struct zt_bench_progress *p, int64_t steps) {
    fprintf(stderr, "\r[%d/%d] %s, %d rank%s, batch %lld: step %lld/%lld\033[K", p->run, p->runs, p->row->mode->name,
            p->row->ranks, zt_plural(p->row->ranks), (long long)p->row->batch, (long long)steps,
            (long long)p->bench->steps);
}

static void clear_progress(const struct zt_bench_progress *p) {
    if (p->terminal)
        fputs("\r\033[K", stderr);
}

static void say_done(const struct zt_bench_progress *p, const struct zt_log *log) {
    clear_progress(p);
    char batch[32] = ""; /* unknown where the config was refused */
    if (p->row->batch > 0)
        snprintf(batch, sizeof batch, ", batch %lld", (long long)p->row->batch);
    zt_say(log, ZT_LOG_INFO, "[%d/%d] %s, %d rank%s%s%s%s", p->run, p->runs, p->row->mode->name, p->row->ranks,
           zt_plural(p->row->ranks), batch, p->row->reason[0] ? ": " : "", p->row->reason);
}

/* Repeats are the outer loop, so that temporary load of the machine does not affect one combination alone. */
static bool run_all(struct zt_bench *b, const char *folder, struct zt_err *err) {
    const struct zt_log *log = &b->options->log;
    struct zt_bench_progress progress = { .say = say_progress,
                                          .bench = b,
                                          .runs = b->row_count * b->repeats,
                                          .terminal =
                                              log->level <= ZT_LOG_INFO && !log->json && isatty(STDERR_FILENO) };
    bool ok = true;
    for (int i = 0; i < b->row_count; i++)
        zt_bench_predict(b, &b->rows[i]);
    for (int k = 0; ok && k < b->repeats; k++) {
        for (int i = 0; ok && i < b->row_count; i++) {
            progress.run++;
            progress.row = &b->rows[i];
            if (!b->rows[i].reason[0])
                ok = zt_bench_run(b, &b->rows[i], folder, &progress, err);
            if (ok && (k == 0 || !b->rows[i].reason[0]))
                say_done(&progress, log);
        }
    }
    if (!ok)
        clear_progress(&progress);
    return ok;
}

static void describe_machine(struct zt_bench *b) {
    char line[512], model[160] = "unknown processor";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %159[^\n]", model) == 1)
            break;
    if (file)
        fclose(file);
    double load = 0; /* load of other programs, which would distort the times */
    if (getloadavg(&load, 1) != 1)
        load = 0;
    snprintf(b->machine, sizeof b->machine, "%s, %d cores for this process, load average %.1f before the first run",
             model, zt_parallel_cores(), load);
    time_t now = time(NULL);
    struct tm utc;
    strftime(b->when, sizeof b->when, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
}

static bool write_table(const struct zt_bench *b, const char *folder, struct zt_err *err) {
    struct zt_file_out out;
    if (!zt_file_out_open_in(&out, folder, "results.tsv", err))
        return false;
    zt_bench_write_tsv(b->rows, b->row_count, out.stream);
    return zt_file_out_commit(&out, err);
}

static bool write_page(const struct zt_bench *b, const char *folder, const char *temporary, struct zt_err *err) {
    struct zt_file_out out;
    struct zt_text plots = { 0 };
    bool ok = zt_bench_plot(b, temporary, &plots, err) && zt_file_out_open_in(&out, folder, "index.html", err);
    if (ok) {
        zt_bench_write_page(b, &plots, out.stream);
        ok = zt_file_out_commit(&out, err);
    }
    zt_text_finish(&plots);
    return ok;
}

/* A table without one measurement is a failure, for the reason of the first combination. */
static bool check_ran(const struct zt_bench *b, struct zt_err *err) {
    for (int i = 0; i < b->row_count; i++)
        if (!b->rows[i].reason[0])
            return true;
    return zt_fail(err, b->rows[0].code, "no combination ran: %s", b->rows[0].reason);
}

static bool report(struct zt_bench *b, const char *folder, const char *temporary, struct zt_err *err) {
    struct zt_text warnings = { 0 };
    zt_bench_finish(b->rows, b->row_count);
    zt_bench_print(b->rows, b->row_count, stdout);
    zt_bench_warn(b->rows, b->row_count, &warnings);
    if (warnings.at)
        zt_say_lines(&b->options->log, ZT_LOG_WARNING, warnings.at);
    zt_text_finish(&warnings);
    return write_table(b, folder, err) && write_page(b, folder, temporary, err) && check_ran(b, err);
}

static bool take_folder(const struct zt_options *o, struct zt_folder_lock **lock, struct zt_err *err) {
    if (!zt_file_make_folder(o->output, err) || !(*lock = zt_folder_lock(o->output, err)))
        return false;
    char *path = zt_path_join(o->output, "results.tsv");
    bool ok = o->overwrite || !zt_file_exists(path);
    free(path);
    if (ok)
        return true;
    zt_fail(err, ZT_EXIT_DATA, "%s: the folder already holds results", o->output);
    return zt_hint(err, "choose another --output, or --overwrite");
}

/* Removes what a killed one has left in the folder, which is locked. */
static void remove_left(const char *output) {
    DIR *dir = opendir(output);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (fnmatch("running.tmp-??????", entry->d_name, 0) == 0) {
            char *path = zt_path_join(output, entry->d_name);
            zt_bench_remove(path);
            free(path);
        }
    if (dir)
        closedir(dir);
}

/* Creates a temporary folder; mkdtemp replaces the last six characters. */
static bool make_temporary(char *path, struct zt_err *err) {
    return mkdtemp(path) || zt_fail(err, ZT_EXIT_DATA, "%s: cannot create the folder: %s", path, strerror(errno));
}

/* Measures in a folder of its own, which also a signal leaves no trace of. */
static bool measure(struct zt_bench *b, struct zt_err *err) {
    const char *output = b->options->output;
    char *temporary = zt_path_join(output, "running.tmp-XXXXXX");
    remove_left(output);
    zt_stop_arm(b->stop, true);
    const bool ok = make_temporary(temporary, err) && run_all(b, temporary, err) && report(b, output, temporary, err);
    zt_bench_remove(temporary);
    free(temporary);
    if (!ok && zt_bench_stopped(b))
        zt_say(&b->options->log, ZT_LOG_INFO, "Stopped by SIG%s: no results are written",
               sigabbrev_np(zt_bench_stopped(b)));
    return ok;
}

bool zt_cli_bench(const struct zt_options *options, struct zt_err *err) {
    struct zt_bench b = { .options = options,
                          .steps = options->over.steps > 0 ? options->over.steps : 30,
                          .warmup = options->warmup >= 0 ? options->warmup : 5,
                          .repeats = options->repeats > 0 ? options->repeats : 3 };
    struct zt_folder_lock *lock = NULL;
    b.stop = zt_stop_create(false, err); /* before OpenMP makes threads */
    zt_parallel_enter();
    describe_machine(&b);
    bool ok = b.stop && make_rows(&b, err);
    if (ok && b.warmup >= b.steps)
        ok = zt_fail(err, ZT_EXIT_CONFIG, "--warmup: %d of %lld steps leaves none to time", b.warmup,
                     (long long)b.steps);
    ok = ok && take_folder(options, &lock, err) && measure(&b, err);
    zt_folder_unlock(lock);
    zt_stop_destroy(b.stop);
    for (int i = 0; i < b.row_count; i++)
        free(b.rows[i].seconds);
    free(b.rows);
    free(b.modes);
    return ok;
}
