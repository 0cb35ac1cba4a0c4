#include "parallel/offload/swap_file.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct zt_swap_folder {
    char *path;                  /* of the rank's folder */
    char run[128], rank[24];     /* names of the two folders */
    int at, run_file, rank_file; /* open folders: nvme_path, of the run, of the rank; -1: not open */
};

static bool fail(struct zt_err *err, const char *path, const char *what) {
    return zt_fail(err, ZT_EXIT_DATA, "%s: %s: %s", path, what, strerror(errno));
}

/* Opens the folder `name` below `at`, which is created. Returns -1 with errno. */
static int open_below(int at, const char *name) {
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return -1;
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Removes the files in the folder, not its folders. `file` stays open. */
static bool empty(int file) {
    const int copy = openat(file, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    bool ok = dir != NULL;
    for (struct dirent *e; ok && (e = readdir(dir));)
        ok = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || unlinkat(file, e->d_name, 0) == 0;
    if (dir)
        closedir(dir);
    else if (copy >= 0)
        close(copy);
    return ok;
}

static bool lock(const struct zt_swap_folder *f, struct zt_err *err) {
    if (flock(f->rank_file, LOCK_EX | LOCK_NB) == 0)
        return true;
    if (errno != EWOULDBLOCK)
        return fail(err, f->path, "cannot be locked");
    zt_fail(err, ZT_EXIT_DATA, "%s: another process offloads the same run to this folder", f->path);
    return zt_hint(err, "choose another nvme_path or another --output, or end that run first");
}

static bool open_folders(struct zt_swap_folder *f, const struct zt_swap_place *place, struct zt_err *err) {
    f->at = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->at < 0)
        return fail(err, place->path, "the folder cannot be opened");
    if ((f->run_file = open_below(f->at, f->run)) < 0 || (f->rank_file = open_below(f->run_file, f->rank)) < 0)
        return fail(err, f->path, "cannot be created");
    return lock(f, err) && (empty(f->rank_file) || fail(err, f->path, "cannot be emptied"));
}

struct zt_swap_folder *zt_swap_folder_open(const struct zt_swap_place *place, struct zt_err *err) {
    struct zt_swap_folder *f = zt_calloc(1, sizeof *f);
    f->at = f->run_file = f->rank_file = -1;
    snprintf(f->run, sizeof f->run, "ztrain-%.100s", place->run);
    snprintf(f->rank, sizeof f->rank, "rank%d", place->rank);
    char *run = zt_path_join(place->path, f->run);
    f->path = zt_path_join(run, f->rank);
    free(run);
    if (open_folders(f, place, err))
        return f;
    if (f->rank_file >= 0) /* not ours */
        close(f->rank_file);
    f->rank_file = -1;
    zt_swap_folder_close(f);
    return NULL;
}

void zt_swap_folder_close(struct zt_swap_folder *f) {
    if (!f)
        return;
    if (f->rank_file >= 0) {
        empty(f->rank_file);
        unlinkat(f->run_file, f->rank, AT_REMOVEDIR);
        close(f->rank_file);
    }
    if (f->run_file >= 0) {
        unlinkat(f->at, f->run, AT_REMOVEDIR); /* fails while other ranks have folders in it */
        close(f->run_file);
    }
    if (f->at >= 0)
        close(f->at);
    free(f->path);
    free(f);
}

const char *zt_swap_folder_path(const struct zt_swap_folder *f) {
    return f->path;
}

/* ---- files ---- */

static bool check_space(const struct zt_swap_file *file, int64_t bytes, struct zt_err *err) {
    struct statvfs disk;
    char t[2][32];
    if (fstatvfs(file->file, &disk) != 0 || (double)disk.f_bavail * (double)disk.f_frsize >= (double)bytes)
        return true;
    zt_fail(err, ZT_EXIT_DATA, "%s: needs %s, but the disk has %s free", file->path,
            zt_format_bytes(t[0], (double)bytes), zt_format_bytes(t[1], (double)disk.f_bavail * (double)disk.f_frsize));
    return zt_hint(err, "free space, or choose another nvme_path");
}

/* File systems in memory and some over the network refuse O_DIRECT. */
static int create(const struct zt_swap_folder *folder, const char *name, bool *direct) {
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int file = openat(folder->rank_file, name, flags | O_DIRECT, 0600);
    *direct = file >= 0;
    if (file >= 0 || errno != EINVAL)
        return file;
    unlinkat(folder->rank_file, name, 0);
    return openat(folder->rank_file, name, flags, 0600);
}

bool zt_swap_file_init(struct zt_swap_file *file, struct zt_swap_folder *folder, const char *name, int64_t bytes,
                       struct zt_err *err) {
    char t[32];
    *file = (struct zt_swap_file){ .path = zt_path_join(folder->path, name) };
    file->file = create(folder, name, &file->direct);
    if (file->file < 0)
        return fail(err, file->path, "cannot be created");
    if (!check_space(file, bytes, err))
        return false;
    errno = bytes ? posix_fallocate(file->file, 0, bytes) : 0;
    return errno == 0 || zt_fail(err, ZT_EXIT_DATA, "%s: cannot reserve %s: %s", file->path,
                                 zt_format_bytes(t, (double)bytes), strerror(errno));
}

void zt_swap_file_finish(struct zt_swap_file *file) {
    if (file->path && file->file >= 0)
        close(file->file);
    free(file->path);
    *file = (struct zt_swap_file){ .file = -1 };
}
