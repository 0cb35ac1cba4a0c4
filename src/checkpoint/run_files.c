#include "checkpoint/run_files.h"

#include "base/file.h"
#include "checkpoint/folder.h"
#include "session/inputs.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `read_only`: a run writes no such file, but it describes the run. `config`: the next run of the folder may read it,
 * which is how a run is continued or repeated. */
static const struct row {
    const char *pattern;
    bool folder, read_only, removed, config;
} rows[] = {
    { .pattern = "metrics.jsonl", .removed = true },
    { .pattern = "model.onnx", .removed = true },
    { .pattern = "model.onnx.data", .removed = true },
    { .pattern = "model.16bit.onnx", .removed = true },
    { .pattern = "model.16bit.onnx.data", .removed = true },
    { .pattern = "adapter_model.safetensors", .removed = true },
    { .pattern = "adapter_config.json", .removed = true },
    { .pattern = ZT_CHECKPOINTS, .folder = true },
    { .pattern = "plan.txt" },
    { .pattern = "config.resolved.json", .config = true },
    { .pattern = "memory.jsonl", .removed = true },
    { .pattern = "trace.json", .removed = true },
    { .pattern = "flops.txt", .removed = true },
    { .pattern = "profile.tsv", .removed = true },
    { .pattern = "Train_Samples_*.csv", .removed = true },
    { .pattern = "events.out.tfevents.*.ztrain" },
    { .pattern = "hashes-*.bin" },
    { .pattern = "report.html", .read_only = true, .removed = true },
};

/* What to do with the names found; false ends the search. */
struct search {
    bool (*visit)(const struct search *search, const struct row *row, const char *name);
    const char *folder;
    const struct zt_session *session;
    struct zt_err *err;
};

static bool visit_pattern(const struct search *s, const struct row *row) {
    DIR *dir = opendir(s->folder);
    bool more = true;
    for (const struct dirent *entry; dir && more && (entry = readdir(dir));)
        more = fnmatch(row->pattern, entry->d_name, 0) != 0 || s->visit(s, row, entry->d_name);
    if (dir)
        closedir(dir);
    return more;
}

static bool visit_name(const struct search *s, const struct row *row) {
    char *path = zt_path_join(s->folder, row->pattern);
    struct stat st;
    const bool there = lstat(path, &st) == 0;
    free(path);
    return !there || s->visit(s, row, row->pattern);
}

static bool visit_all(const struct search *s) {
    bool more = true;
    for (size_t i = 0; more && i < sizeof rows / sizeof *rows; i++)
        more = strchr(rows[i].pattern, '*') ? visit_pattern(s, &rows[i]) : visit_name(s, &rows[i]);
    return more;
}

static bool refuse(const struct search *s, const struct row *row, const char *name) {
    if (row->read_only)
        return true;
    zt_fail(s->err, ZT_EXIT_DATA, "%s: the folder already holds a run (%s)", s->folder, name);
    return zt_hint(s->err, "choose another --output, or --resume to continue the run, or --overwrite to replace it");
}

bool zt_run_files_absent(const struct zt_options *o, const char *folder, struct zt_err *err) {
    return o->overwrite || o->resume || visit_all(&(struct search){ refuse, folder, NULL, err });
}

static bool check(const struct search *s, const struct row *row, const char *name) {
    char *path = zt_path_join(s->folder, name);
    struct stat st;
    bool ok = stat(path, &st) != 0 || (row->folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)) ||
              zt_fail(s->err, ZT_EXIT_DATA, "%s: cannot be written: it is %s", path,
                      row->folder           ? "not a folder"
                      : S_ISDIR(st.st_mode) ? "a folder"
                                            : "not a regular file");
    /* a run that resumes adds to its checkpoints */
    ok = ok && (row->config || (row->folder && !s->session->options->overwrite) ||
                zt_inputs_spare(s->session->options, s->session->config, path, s->err));
    free(path);
    return ok;
}

bool zt_run_files_writable(const struct zt_session *session, const char *folder, struct zt_err *err) {
    const struct zt_flops_config *flops = &session->config->flops;
    return (!flops->enabled || zt_inputs_spare(session->options, session->config, flops->output_file, err)) &&
           visit_all(&(struct search){ check, folder, session, err });
}

static bool remove_one(const struct search *s, const struct row *row, const char *name) {
    char *path = zt_path_join(s->folder, name);
    if (row->removed)
        unlink(path);
    free(path);
    return true;
}

void zt_run_files_remove(const char *folder) {
    visit_all(&(struct search){ remove_one, folder, NULL, NULL });
}
