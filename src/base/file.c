#include "base/file.h"
#include "base/arena.h"
#include "base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ZT_NAME_MAX = 255 };

/* `path` is relative to the current folder; errors contain `name`. */
static bool map_descriptor(struct zt_file_map *map, int fd, const char *path, const char *name, enum zt_exit code,
                           struct zt_err *err) {
    struct stat st;
    *map = (struct zt_file_map){ 0 };
    if (fstat(fd, &st) != 0)
        return zt_fail(err, code, "%s: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return zt_fail(err, code, "%s: not a regular file", name);
    size_t size = (size_t)st.st_size;
    void *p = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : (void *)"";
    if (p == MAP_FAILED && errno == ENOMEM)
        return zt_fail(err, ZT_EXIT_RUN, "%s: out of memory: %zu bytes of address space refused", name, size);
    if (p == MAP_FAILED)
        return zt_fail(err, code, "%s: cannot be mapped: %s", name, strerror(errno));
    *map = (struct zt_file_map){ p, size, zt_mapped_enter(p, size, path, &st) };
    return true;
}

bool zt_file_map(struct zt_file_map *map, const char *path, enum zt_exit code, struct zt_err *err) {
    *map = (struct zt_file_map){ 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return zt_fail(err, code, "%s: %s", path, strerror(errno));
    bool ok = map_descriptor(map, fd, path, path, code, err);
    close(fd);
    return ok;
}

/* Opens `name` below `folder` with O_NOFOLLOW, one path component at a time. Returns -1 with the reason in *why for an
 * invalid component. */
static int open_below(const char *folder, const char *name, const char **why) {
    int at = open(folder[0] ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char part[ZT_NAME_MAX + 1];
    *why = NULL;
    while (at >= 0) {
        size_t n = strcspn(name, "/");
        bool last = name[n] == 0;
        if (n == 0 || n > ZT_NAME_MAX || (n == 2 && memcmp(name, "..", 2) == 0)) {
            *why = "is not a path inside the model's folder";
            close(at);
            return -1;
        }
        memcpy(part, name, n);
        part[n] = 0;
        int next = openat(at, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
        int saved = errno;
        struct stat st; /* a link instead of a folder gives "not a directory" */
        if (next < 0 && fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            *why = "is or goes through a symbolic link";
        close(at);
        errno = saved;
        if (next < 0 || last)
            return next;
        at = next;
        name += n + 1;
    }
    return at;
}

bool zt_file_map_below(struct zt_file_map *map, const char *folder, const char *name, enum zt_exit code,
                       struct zt_err *err) {
    const char *why;
    *map = (struct zt_file_map){ 0 };
    if (name[0] == '/')
        return zt_fail(err, code, "external data location \"%s\" is an absolute path", name);
    int fd = open_below(folder, name, &why);
    if (fd < 0)
        return zt_fail(err, code, "external data location \"%s\" %s", name, why ? why : strerror(errno));
    char *path = zt_path_join(folder, name);
    bool ok = map_descriptor(map, fd, path, name, code, err);
    free(path);
    close(fd);
    return ok;
}

void zt_file_unmap(struct zt_file_map *map) {
    zt_mapped_leave(map->mapped);
    if (map->size)
        munmap((void *)map->data, map->size);
    *map = (struct zt_file_map){ 0 };
}

bool zt_file_close(struct zt_file_map *map, bool ok, struct zt_err *err) {
    ok = zt_mapped_intact(map->mapped, err) && ok;
    zt_file_unmap(map);
    return ok;
}

/* O_EXCL follows no link and overwrites no file. The number distinguishes threads and is hard to guess. */
static FILE *create_new(char *path, size_t length) {
    for (int tries = 0; tries < 100; tries++) {
        uint32_t number = 0;
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
            number = (uint32_t)tries;
        sprintf(path + length, ".tmp-%ld-%08x", (long)getpid(), number);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fdopen(fd, "wb");
        if (errno != EEXIST)
            break;
    }
    return NULL;
}

bool zt_file_out_open(struct zt_file_out *out, const char *path, struct zt_err *err) {
    size_t length = strlen(path);
    struct stat st;
    *out = (struct zt_file_out){ 0 };
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: %s", path,
                       S_ISDIR(st.st_mode) ? "it is a folder" : "it is not a regular file");
    *out = (struct zt_file_out){ .path = zt_strdup(path), .temporary = zt_malloc(length + 48) };
    memcpy(out->temporary, path, length + 1);
    out->stream = create_new(out->temporary, length);
    if (out->stream)
        return true;
    zt_fail(err, ZT_EXIT_DATA, "%s: cannot be created: %s", path, strerror(errno));
    out->temporary[0] = 0; /* the existing file is not ours */
    zt_file_out_abort(out);
    return false;
}

bool zt_file_out_open_in(struct zt_file_out *out, const char *folder, const char *name, struct zt_err *err) {
    char *path = zt_path_join(folder, name);
    bool ok = zt_file_out_open(out, path, err);
    free(path);
    return ok;
}

bool zt_file_out_reopen(struct zt_file_out *out, struct zt_err *err) {
    fclose(out->stream);
    out->stream = fopen(out->temporary, "r+be");
    return out->stream || zt_fail(err, ZT_EXIT_DATA, "%s: %s", out->temporary, strerror(errno));
}

bool zt_file_out_commit(struct zt_file_out *out, struct zt_err *err) {
    errno = 0;
    bool ok = fflush(out->stream) == 0 && !ferror(out->stream) && fsync(fileno(out->stream)) == 0;
    int why = errno;
    if (fclose(out->stream) != 0 && ok) {
        ok = false;
        why = errno;
    }
    out->stream = NULL;
    bool intact = zt_mapped_all_intact(err);
    if (ok && intact && rename(out->temporary, out->path) != 0) {
        ok = false;
        why = errno;
    }
    if (!ok && intact)
        zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: %s", out->path, strerror(why ? why : EIO));
    if (ok && intact)
        out->temporary[0] = 0;
    zt_file_out_abort(out);
    return ok && intact;
}

void zt_file_out_abort(struct zt_file_out *out) {
    if (out->stream)
        fclose(out->stream);
    if (out->temporary && out->temporary[0])
        unlink(out->temporary);
    free(out->path);
    free(out->temporary);
    *out = (struct zt_file_out){ 0 };
}

bool zt_file_write(const char *path, const void *data, size_t bytes, struct zt_err *err) {
    struct zt_file_out out;
    if (!zt_file_out_open(&out, path, err))
        return false;
    fwrite(data, 1, bytes, out.stream);
    return zt_file_out_commit(&out, err);
}

bool zt_file_make_folder(const char *path, struct zt_err *err) {
    char *copy = zt_strdup(path);
    bool ok = true;
    for (char *p = copy + 1; ok && copy[0]; p++) {
        if (*p && *p != '/')
            continue;
        char end = *p;
        *p = 0;
        struct stat st;
        const int why = mkdir(copy, 0777) == 0 ? 0 : errno;
        if (why && !(stat(copy, &st) == 0 && S_ISDIR(st.st_mode)))
            ok = zt_fail(err, ZT_EXIT_DATA, "%s: cannot create the folder: %s", copy, strerror(why));
        *p = end;
        if (!end)
            break;
    }
    free(copy);
    return ok;
}

int zt_file_links(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int)st.st_nlink : 0;
}

bool zt_file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool zt_file_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *zt_path_join(const char *base_folder, const char *name) {
    if (name[0] == '/' || !base_folder || !base_folder[0])
        return zt_strdup(name);
    size_t n = strlen(base_folder), m = strlen(name);
    char *to = zt_malloc(n + m + 2);
    memcpy(to, base_folder, n);
    if (to[n - 1] != '/')
        to[n++] = '/';
    memcpy(to + n, name, m + 1);
    return to;
}

char *zt_path_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return zt_strdup(".");
    size_t n = slash == path ? 1 : (size_t)(slash - path);
    char *to = zt_malloc(n + 1);
    memcpy(to, path, n);
    to[n] = 0;
    return to;
}

const char *zt_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
