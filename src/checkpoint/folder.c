#include "checkpoint/folder.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/text.h"
#include "base/vec.h"
#include "checkpoint/format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY ".tmp-"
#define OLD       ".old-"

enum { NAME_ROOM = 64 };

static void step_name(const struct zt_checkpoint_folder *f, char *to, const char *before, int64_t step) {
    snprintf(to, NAME_ROOM, "%s%.32s%lld", before, f->tag, (long long)step);
}

/* Returns the step in a name of the form of step_name(); -1: another name. */
static int64_t step_of(const struct zt_checkpoint_folder *f, const char *name) {
    char again[NAME_ROOM];
    int64_t step;
    if (!zt_text_begins(name, f->tag) || !zt_text_number(name + strlen(f->tag), &step) || step < 0)
        return -1;
    step_name(f, again, "", step);
    return strcmp(name, again) == 0 ? step : -1;
}

static char *path_of(const struct zt_checkpoint_folder *f, const char *before, int64_t step) {
    char name[NAME_ROOM];
    step_name(f, name, before, step);
    return zt_path_join(f->path, name);
}

char *zt_checkpoint_path(const struct zt_checkpoint_folder *f, int64_t step) {
    return path_of(f, "", step);
}

char *zt_checkpoint_temporary(const struct zt_checkpoint_folder *f, int64_t step) {
    return path_of(f, TEMPORARY, step);
}

static bool fail(const char *folder, const char *name, const char *what, struct zt_err *err) {
    return zt_fail(err, ZT_EXIT_DATA, "%s/%s: %s: %s", folder, name, what, strerror(errno));
}

/* Flushes the entries of a folder to disk. Some file systems do not support this (EINVAL). */
static bool sync_folder(const char *path, struct zt_err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (!ok)
        zt_fail(err, ZT_EXIT_DATA, "%s: cannot flush to disk: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Removes a folder of files below `at`; links in it are removed, not followed. Files that cannot be removed remain; the
 * next checkpoint tries again. */
static void remove_folder(int at, const char *name) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (!list) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(list));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(fd, entry->d_name, 0);
    closedir(list);
    unlinkat(at, name, AT_REMOVEDIR);
}

/* Hides a checkpoint by renaming it, then removes it. */
static void remove_checkpoint(int at, const char *name) {
    char old[NAME_MAX + sizeof OLD];
    snprintf(old, sizeof old, OLD "%s", name);
    remove_folder(at, old);
    if (renameat(at, name, at, old) == 0)
        remove_folder(at, old);
}

/* Calls `visit` for every name in the folder; returns false if the folder cannot be read. */
static bool each_name(const struct zt_checkpoint_folder *f, void (*visit)(int at, const char *name, void *arg),
                      void *arg) {
    DIR *list = opendir(f->path);
    if (!list)
        return false;
    for (const struct dirent *entry; (entry = readdir(list));)
        visit(dirfd(list), entry->d_name, arg);
    closedir(list);
    return true;
}

/* Names that another tag left begin alike; only checkpoints have them. */
static void remove_leftover(int at, const char *name, void *arg) {
    const struct zt_checkpoint_folder *f = arg;
    const size_t before = zt_text_begins(name, TEMPORARY) ? sizeof TEMPORARY - 1
                          : zt_text_begins(name, OLD)     ? sizeof OLD - 1
                                                          : 0;
    if (before && step_of(f, name + before) >= 0)
        remove_folder(at, name);
    else if (zt_text_begins(name, "latest.tmp-") || zt_text_begins(name, "best.tmp-"))
        unlinkat(at, name, 0);
}

bool zt_checkpoint_begin(const struct zt_checkpoint_folder *f, int64_t step, struct zt_err *err) {
    if (!zt_file_make_folder(f->path, err))
        return false;
    each_name(f, remove_leftover, (void *)f);
    char *path = zt_checkpoint_temporary(f, step);
    bool ok =
        mkdir(path, 0777) == 0 || zt_fail(err, ZT_EXIT_DATA, "%s: cannot create the folder: %s", path, strerror(errno));
    free(path);
    return ok;
}

void zt_checkpoint_abandon(const struct zt_checkpoint_folder *f, int64_t step) {
    char name[NAME_ROOM];
    int at = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    step_name(f, name, TEMPORARY, step);
    if (at < 0)
        return;
    remove_folder(at, name);
    close(at);
}

/* Exchanges two folders with renameat2; if the file system does not support it, the existing one is renamed first. */
static bool move_into_place(int at, const char *from, const char *to) {
    char old[NAME_MAX + sizeof OLD];
    snprintf(old, sizeof old, OLD "%s", to);
    if (renameat(at, from, at, to) == 0)
        return true;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return false;
    if (renameat2(at, from, at, to, RENAME_EXCHANGE) == 0) {
        if (renameat(at, from, at, old) == 0)
            remove_folder(at, old);
        return true;
    }
    remove_folder(at, old);
    bool ok = renameat(at, to, at, old) == 0 && renameat(at, from, at, to) == 0;
    if (ok)
        remove_folder(at, old);
    return ok;
}

bool zt_checkpoint_point(const struct zt_checkpoint_folder *f, const char *name, int64_t step, struct zt_err *err) {
    char text[NAME_ROOM + 1];
    step_name(f, text, "", step);
    strcat(text, "\n");
    char *path = zt_path_join(f->path, name);
    bool ok = zt_file_write(path, text, strlen(text), err) && sync_folder(f->path, err);
    free(path);
    return ok;
}

static bool has(const char *folder, const char *name) {
    char *path = zt_path_join(folder, name);
    bool there = zt_file_exists(path);
    free(path);
    return there;
}

static bool remove_pointer(const char *folder, const char *name, struct zt_err *err) {
    char *path = zt_path_join(folder, name);
    bool ok = unlink(path) == 0 || errno == ENOENT || fail(folder, name, "cannot be removed", err);
    free(path);
    return ok;
}

bool zt_checkpoint_point_back(const struct zt_checkpoint_folder *f, const char *name, int64_t step,
                              struct zt_err *err) {
    char to[NAME_ROOM];
    step_name(f, to, "", step);
    return step >= 0 && has(f->path, to) ? zt_checkpoint_point(f, name, step, err) : remove_pointer(f->path, name, err);
}

bool zt_checkpoint_commit(const struct zt_checkpoint_folder *f, int64_t step, struct zt_err *err) {
    const char *folder = f->path;
    char from[NAME_ROOM], to[NAME_ROOM];
    char *temporary = zt_checkpoint_temporary(f, step);
    step_name(f, from, TEMPORARY, step);
    step_name(f, to, "", step);
    bool ok = sync_folder(temporary, err) && zt_mapped_all_intact(err);
    int at = ok ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    ok = ok && ((at >= 0 && move_into_place(at, from, to)) || fail(folder, to, "cannot be renamed into place", err));
    ok = ok && sync_folder(folder, err) && zt_checkpoint_point(f, "latest", step, err);
    if (at >= 0)
        close(at);
    free(temporary);
    return ok;
}

/* ---- removal ---- */

struct steps {
    const struct zt_checkpoint_folder *folder;
    ZT_VEC(int64_t) list;
};

static void list_step(int at, const char *name, void *arg) {
    struct steps *steps = arg;
    int64_t step = step_of(steps->folder, name);
    (void)at;
    if (step >= 0)
        zt_vec_push(&steps->list, step);
}

static int newest_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

bool zt_checkpoint_prune(const struct zt_checkpoint_folder *f, int64_t step, int64_t keep, int64_t best,
                         struct zt_err *err) {
    struct steps steps = { .folder = f };
    int later = 0;
    if (keep <= 0)
        return true;
    int at = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = (at >= 0 && each_name(f, list_step, &steps)) || fail(f->path, "", "cannot be read", err);
    if (steps.list.count)
        qsort(steps.list.at, (size_t)steps.list.count, sizeof *steps.list.at, newest_first);
    while (later < steps.list.count && steps.list.at[later] > step)
        later++;
    for (int i = 0; ok && i < steps.list.count; i++) {
        const int newer = i < later ? steps.list.count - later + i : i - later;
        char name[NAME_ROOM];
        step_name(f, name, "", steps.list.at[i]);
        if (newer >= keep && steps.list.at[i] != best)
            remove_checkpoint(at, name);
    }
    if (at >= 0)
        close(at);
    zt_vec_finish(&steps.list);
    return ok;
}

/* A checkpoint of an earlier run may have another tag. */
static bool is_checkpoint(int at, const char *name) {
    char manifest[NAME_MAX + sizeof "/" ZT_MANIFEST];
    snprintf(manifest, sizeof manifest, "%s/" ZT_MANIFEST, name);
    return name[0] != '.' && faccessat(at, manifest, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void remove_ours(int at, const char *name, void *arg) {
    if (step_of(arg, name) >= 0 || is_checkpoint(at, name))
        remove_checkpoint(at, name);
    else
        remove_leftover(at, name, arg);
}

bool zt_checkpoint_clear(const struct zt_checkpoint_folder *f, struct zt_err *err) {
    const char *folder = f->path;
    struct stat st;
    if (stat(folder, &st) != 0)
        return errno == ENOENT || fail(folder, "", "cannot be read", err);
    /* pointers first, so that they never name a missing checkpoint */
    if (!remove_pointer(folder, "latest", err) || !remove_pointer(folder, "best", err))
        return false;
    return each_name(f, remove_ours, (void *)f) || fail(folder, "", "cannot be read", err);
}

/* ---- finding ---- */

/* Hints at what ztrain takes of a checkpoint of DeepSpeed. */
static bool hint_deepspeed(const char *folder, struct zt_err *err) {
    return has(folder, "mp_rank_00_model_states.pt") &&
           !zt_hint(err,
                    "this is a checkpoint of DeepSpeed; its zero_to_fp32.py with --safe_serialization writes a file "
                    "for --load FILE --weights-only");
}

/* Reports that the file `path` names `name`, which is the folder `to` (NULL: no name of a folder). */
static void fail_follow(const char *path, const char *name, const char *to, struct zt_err *err) {
    zt_fail(err, ZT_EXIT_DATA, "%s: does not name a checkpoint: %s%s%s", path, to ? "\"" : "",
            to ? name : "it holds no name of a folder beside it",
            !to                  ? ""
            : zt_file_exists(to) ? "\" has no " ZT_MANIFEST
                                 : "\" does not exist");
    if (!to || !hint_deepspeed(to, err))
        zt_hint(err, "a checkpoint can also be given by its folder, step-N");
}

/* Returns the checkpoint that the file `path` (`latest` or `best`) names. */
static char *follow(const char *folder, const char *path, struct zt_err *err) {
    struct zt_file_map map;
    char name[NAME_ROOM] = "", *to = NULL;
    if (zt_file_map(&map, path, ZT_EXIT_DATA, err)) {
        if (map.size < sizeof name)
            memcpy(name, map.data, map.size);
        name[strcspn(name, "\n")] = 0;
        bool ok = zt_file_close(&map, true, err), plain = name[0] && name[0] != '.' && !strchr(name, '/');
        to = ok && plain ? zt_path_join(folder, name) : NULL;
        if (ok && (!plain || !has(to, ZT_MANIFEST))) {
            fail_follow(path, name, to, err);
            free(to);
            to = NULL;
        }
    }
    return to;
}

static char *follow_latest(const char *folder, struct zt_err *err) {
    char *path = zt_path_join(folder, "latest"), *to = follow(folder, path, err);
    free(path);
    return to;
}

static char *follow_file(const char *path, struct zt_err *err) {
    char *folder = zt_path_folder(path), *to = follow(folder, path, err);
    free(folder);
    return to;
}

char *zt_checkpoint_latest(const char *run_folder, struct zt_err *err) {
    char *folder = zt_path_join(run_folder, ZT_CHECKPOINTS), *to = follow_latest(folder, err);
    if (!to && !has(folder, "latest"))
        zt_hint(err, "the run in %s has left no checkpoint; --overwrite starts it from the beginning", run_folder);
    free(folder);
    return to;
}

char *zt_checkpoint_find(const char *path, struct zt_err *err) {
    if (has(path, ZT_MANIFEST))
        return zt_strdup(path);
    if (has(path, "latest"))
        return follow_latest(path, err);
    if (has(path, "checkpoints/latest"))
        return zt_checkpoint_latest(path, err);
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return follow_file(path, err);
    zt_fail(err, ZT_EXIT_DATA, "%s: %s", path,
            zt_file_exists(path) ? "not a checkpoint: it has no " ZT_MANIFEST "" : "no such folder");
    hint_deepspeed(path, err);
    return NULL;
}
