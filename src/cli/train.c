/* ztrain [train]: prepares the output folder, then runs the main path. */
#include "cli/commands.h"
#include "train.h"

#include "base/file.h"
#include "base/folder_lock.h"
#include "base/text.h"
#include "checkpoint/folder.h"
#include "checkpoint/load_weights.h"
#include "checkpoint/run_files.h"
#include "checkpoint/storage.h"
#include "cli/autotune.h"
#include "cli/launch.h"
#include "plan/open.h"
#include "run/stop/stop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the output folder: --output, or runs/<model name>. The caller frees with free(). */
static char *output_folder(const struct zt_options *o) {
    if (o->output)
        return zt_strdup(o->output);
    const char *name = zt_path_name(o->model), *dot = strrchr(name, '.');
    size_t n = dot && dot != name ? (size_t)(dot - name) : strlen(name);
    char *to = zt_malloc(n + 6);
    memcpy(to, "runs/", 5);
    memcpy(to + 5, name, n);
    to[n + 5] = 0;
    return to;
}

/* The number of folders at the end of the path that do not exist. */
static int count_missing(const char *path) {
    char *at = zt_strdup(path), *slash = at;
    int count = 0;
    for (; slash && at[0] && !zt_file_exists(at); count++) {
        slash = strrchr(at, '/');
        if (slash)
            *slash = 0;
    }
    free(at);
    return count;
}

/* Removes the `count` last folders of the path if they are empty: they were created for a run that did not begin. The
 * lock file of a rank that was killed goes with them. */
static void remove_empty(const char *path, int count) {
    if (count && zt_file_is_folder(path))
        zt_folder_unlock(zt_folder_lock(path, &(struct zt_err){ 0 }));
    char *at = zt_strdup(path), *slash = at;
    for (; slash && count-- && rmdir(at) == 0;) {
        slash = strrchr(at, '/');
        if (slash)
            *slash = 0;
    }
    free(at);
}

/* Takes over the folder. If this fails, nothing in the folder has changed. */
static bool take_folder(const struct zt_session *s, const char *folder, struct zt_folder_lock **lock,
                        struct zt_err *err) {
    const bool taken = zt_storage_take(s, folder, lock, err);
    const char *why = *lock ? zt_folder_unlockable(*lock) : NULL;
    if (why)
        zt_say(&s->options->log, ZT_LOG_WARNING,
               "%s: its file system does not support locks (%s): do not start a second run in it", folder, why);
    return taken;
}

/* Returns the checkpoint of --resume. The caller frees with free(). */
static char *resume_from(const struct zt_options *o, const char *folder, struct zt_err *err) {
    return o->resume_from ? zt_checkpoint_find(o->resume_from, err) : zt_checkpoint_latest(folder, err);
}

/* With a foreign launcher each rank prints its own errors, except errors that only repeat those of another rank. */
static void leave_to_others(const struct zt_session *s, struct zt_err *err) {
    if (err->code == ZT_EXIT_RANK && !zt_text_begins(err->text[0], ZT_LOST_RANK) &&
        (s->launched.rank != 0 || zt_text_begins(err->text[0], "rank ")))
        err->count = 0;
}

/* With several processes, only one checks, creates and locks the folder, because the others would find its files.
 * Other hosts with storage of their own follow (checkpoint/storage.h). */
static bool open_and_train(const struct zt_options *o, struct zt_stop *stop, const char *folder, struct zt_err *err) {
    struct zt_session s;
    struct zt_folder_lock *lock = NULL;
    struct zt_weights *weights = NULL;
    struct zt_err unfound = { 0 };
    char *from = NULL;
    bool ok = zt_open(&s, o, ZT_WEIGHTS_MAPPED, ZT_DATA_TRAIN | ZT_DATA_EVAL, err) &&
              (!o->load || (weights = zt_weights_load(&s, o->load, err)) != NULL);
    if (ok && s.launched.rank == 0)
        ok = take_folder(&s, folder, &lock, err);
    if (ok && o->resume) {
        /* hosts with storage of their own tell each other first which one lacks the checkpoint */
        const bool waits = s.processes && s.config->checkpoint.node_local;
        from = resume_from(o, folder, waits ? &unfound : err);
        ok = from || waits;
    }
    const struct zt_train_request request = { folder, from, unfound.count ? &unfound : NULL, stop };
    ok = ok && zt_train(&s, &request, err);
    free(from);
    if (!ok && s.processes && !o->supervisor)
        leave_to_others(&s, err);
    zt_open_finish(&s);
    zt_weights_close(weights);
    zt_folder_unlock(lock);
    return ok;
}

static bool train(const struct zt_options *o, const char *folder, struct zt_err *err) {
    struct zt_stop *stop = zt_stop_create(o->supervisor != NULL, err); /* before OpenMP makes threads */
    bool ok = stop && open_and_train(o, stop, folder, err);
    zt_stop_destroy(stop);
    return ok;
}

static bool launch_or_train(const struct zt_options *o, const char *folder, struct zt_err *err) {
    bool launched;
    return zt_launch(o, folder, &launched, err) && (launched || train(o, folder, err));
}

static bool tune_and_train(const struct zt_options *o, const char *folder, struct zt_err *err) {
    struct zt_tuned tuned;
    bool ok = zt_autotune(o, folder, &tuned, err) && launch_or_train(&tuned.options, folder, err);
    zt_tuned_finish(&tuned);
    return ok;
}

/* Whether this process removes the folder of a run that did not begin. A rank that fails while rank 0 creates and locks
 * the folder must not, and rank 0 may have been killed: the supervisor does when all ranks have ended, and rank 0 where
 * a foreign launcher started the ranks. */
static bool clears_folder(const struct zt_options *o) {
    struct zt_launched found;
    return !o->supervisor && zt_launched_find(&found, &(struct zt_err){ 0 }) && found.rank == 0;
}

bool zt_cli_train(const struct zt_options *options, struct zt_err *err) {
    char *folder = output_folder(options);
    const int missing = count_missing(folder);
    bool tunes, ok = zt_autotune_wanted(options, &tunes, err);
    if (ok && tunes)
        ok = zt_run_files_absent(options, folder, err) && tune_and_train(options, folder, err);
    else
        ok = ok && launch_or_train(options, folder, err);
    if (!ok && clears_folder(options))
        remove_empty(folder, missing);
    free(folder);
    return ok;
}
