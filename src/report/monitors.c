#include "report/monitors.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "report/csv_files.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct zt_monitors {
    struct zt_event_file *events; /* NULL: off */
    struct zt_csv_files *csv;     /* NULL: off */
    char *csv_folder;
    double flushed; /* time of the last flush, from zt_now() */
};

/* Start of a monitor of the run. */
struct start {
    const char *folder; /* output folder of the run */
    int64_t samples;
    bool resumed;
};

/* Returns the folder of a monitor, and creates it. Free with free(). */
static char *folder_of(const struct zt_monitor_config *m, const char *run, struct zt_err *err) {
    const char *job = m->job_name[0] ? m->job_name : m->output_path[0] ? "DeepSpeedJobName" : "";
    const char *base = m->output_path[0] ? m->output_path : run;
    char *to = job[0] ? zt_path_join(base, job) : zt_strdup(base);
    if (zt_file_make_folder(to, err))
        return to;
    free(to);
    return NULL;
}

/* Returns the ending of the names of this run's event files: outside of the run's folder, where other runs may have
 * files, it has a hash of the folder's path. */
static void owner_of(const char *run, bool own_folder, char owner[32]) {
    char *whole = realpath(run, NULL);
    const char *path = whole ? whole : run;
    snprintf(owner, 32, "ztrain");
    if (!own_folder)
        snprintf(owner, 32, "ztrain-%016llx", (unsigned long long)zt_hash(ZT_HASH_START, path, strlen(path)));
    free(whole);
}

/* Appends the resolved config as indented text, which is Markdown for code. */
static void add_config(struct zt_event_file *events, const struct zt_config *config, int64_t samples) {
    struct zt_err ignored = { 0 };
    struct zt_text text = { 0 };
    size_t bytes;
    char *json = zt_config_text(config, &bytes, &ignored);
    for (char *rest = NULL, *line = json ? strtok_r(json, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        zt_text_add(&text, "    %s\n", line);
    if (text.at)
        zt_event_file_text(events, "config", samples, text.at);
    zt_text_finish(&text);
    free(json);
}

static bool open_events(struct zt_monitors *m, const struct zt_config *config, const struct start *start,
                        struct zt_err *err) {
    char owner[32], *folder;
    if (!config->tensorboard.enabled)
        return start->resumed || zt_event_files_cut(start->folder, "ztrain", -1, err);
    if (!(folder = folder_of(&config->tensorboard, start->folder, err)))
        return false;
    owner_of(start->folder, !config->tensorboard.output_path[0], owner);
    if (zt_event_files_cut(folder, owner, start->resumed ? start->samples : -1, err))
        m->events = zt_event_file_create(folder, owner, err);
    free(folder);
    if (m->events)
        add_config(m->events, config, start->samples);
    return m->events;
}

static bool open_csv(struct zt_monitors *m, const struct zt_config *config, const struct start *start,
                     struct zt_err *err) {
    enum zt_csv_start how = start->resumed ? ZT_CSV_CUT : config->csv.output_path[0] ? ZT_CSV_APPEND : ZT_CSV_REPLACE;
    if (!config->csv.enabled && !config->wandb && !config->comet)
        return true;
    if (!(m->csv_folder = folder_of(&config->csv, start->folder, err)))
        return false;
    m->csv = zt_csv_files_create(m->csv_folder, how, start->samples);
    return true;
}

static bool prepare(const struct zt_monitor_config *m, const char *run, struct zt_err *err) {
    char *folder = folder_of(m, run, err);
    bool ok = folder && (access(folder, W_OK) == 0 ||
                         zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: %s", folder, strerror(errno)));
    free(folder);
    return ok;
}

bool zt_monitors_prepare(const struct zt_config *config, const char *folder, struct zt_err *err) {
    const bool csv = config->csv.enabled || config->wandb || config->comet;
    return (!config->tensorboard.enabled || prepare(&config->tensorboard, folder, err)) &&
           (!csv || prepare(&config->csv, folder, err));
}

struct zt_monitors *zt_monitors_create(const struct zt_config *config, const char *folder, int64_t samples,
                                       bool resumed, struct zt_err *err) {
    const struct start start = { folder, samples, resumed };
    struct zt_err ignored = { 0 };
    struct zt_monitors *m = zt_calloc(1, sizeof *m);
    m->flushed = zt_now();
    if (open_events(m, config, &start, err) && open_csv(m, config, &start, err))
        return m;
    zt_monitors_finish(m, &ignored);
    return NULL;
}

bool zt_monitors_on(const struct zt_monitors *m) {
    return m && (m->events || m->csv);
}

const char *zt_monitors_csv_folder(const struct zt_monitors *m) {
    return m ? m->csv_folder : NULL;
}

bool zt_monitors_add(struct zt_monitors *m, const char *tag, int64_t samples, double value, struct zt_err *err) {
    if (m->events)
        zt_event_file_scalar(m->events, tag, samples, value);
    return !m->csv || zt_csv_files_add(m->csv, tag, samples, value, err);
}

void zt_monitors_histogram(struct zt_monitors *m, const char *tag, int64_t samples, const struct zt_histogram *h) {
    if (m->events)
        zt_event_file_histogram(m->events, tag, samples, h);
}

bool zt_monitors_flush(struct zt_monitors *m, bool sync, struct zt_err *err) {
    const double now = zt_now();
    if (!zt_monitors_on(m) || (!sync && now - m->flushed < 1))
        return true;
    m->flushed = now;
    return (!m->events || zt_event_file_flush(m->events, sync, err)) &&
           (!m->csv || zt_csv_files_flush(m->csv, sync, err));
}

bool zt_monitors_finish(struct zt_monitors *m, struct zt_err *err) {
    if (!m)
        return true;
    bool ok = zt_event_file_finish(m->events, err);
    ok = zt_csv_files_finish(m->csv, err) && ok;
    free(m->csv_folder);
    free(m);
    return ok;
}
