#include "base/folder_lock.h"

#include "base/arena.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME ".ztrain-lock"

enum { HOLDER_ROOM = 200, TRIES = 100 };

struct zt_folder_lock {
    char *path;
    int fd;
    int unlockable; /* errno of locking; 0: locked */
};

static bool refuse(const char *folder, int fd, struct zt_err *err) {
    char holder[HOLDER_ROOM] = "";
    ssize_t length = pread(fd, holder, sizeof holder - 1, 0);
    holder[length > 0 ? length : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    zt_fail(err, ZT_EXIT_DATA, "%s: another run writes here: %s", folder, holder[0] ? holder : "it has just begun");
    return zt_hint(err, "choose another --output, or end that run first");
}

/* Whether the locked file still has its name: the last holder may have removed it meanwhile. */
static bool is_current(int fd, const char *path) {
    struct stat own, named;
    return fstat(fd, &own) == 0 && lstat(path, &named) == 0 && own.st_ino == named.st_ino && own.st_dev == named.st_dev;
}

/* Writes the holder into the file for error messages. The lock does not depend on it. */
static void write_holder(int fd) {
    char host[80] = "", since[40] = "", text[HOLDER_ROOM];
    time_t now = time(NULL);
    struct tm local;
    gethostname(host, sizeof host - 1);
    strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S %z", localtime_r(&now, &local));
    int length = snprintf(text, sizeof text, "process %ld on %s since %s\n", (long)getpid(), host, since);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) < 0)
        return;
}

/* Returns 1 if the file is locked or cannot be locked, 0 if it was removed meanwhile, -1 for an error. */
static int try_lock(struct zt_folder_lock *lock, const char *folder, struct zt_err *err) {
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (lock->fd < 0) {
        zt_fail(err, ZT_EXIT_DATA, "%s: %s", lock->path, strerror(errno));
        return -1;
    }
    bool held = fcntl(lock->fd, F_OFD_SETLK, &all) != 0;
    if (held && (errno == EAGAIN || errno == EACCES)) {
        refuse(folder, lock->fd, err);
        return -1;
    }
    lock->unlockable = held ? errno : 0;
    if (is_current(lock->fd, lock->path))
        return 1;
    close(lock->fd);
    return 0;
}

struct zt_folder_lock *zt_folder_lock(const char *folder, struct zt_err *err) {
    struct zt_folder_lock *lock = zt_calloc(1, sizeof *lock);
    int got = 0;
    lock->path = zt_path_join(folder, LOCK_NAME);
    for (int i = 0; got == 0 && i < TRIES; i++)
        got = try_lock(lock, folder, err);
    if (got > 0) {
        write_holder(lock->fd);
        return lock;
    }
    if (got == 0)
        zt_fail(err, ZT_EXIT_DATA, "%s: the lock file changes too often", lock->path);
    else if (lock->fd >= 0)
        close(lock->fd);
    free(lock->path);
    free(lock);
    return NULL;
}

bool zt_folder_is_free(const char *folder, struct zt_err *err) {
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char *path = zt_path_join(folder, LOCK_NAME);
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool locked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
    if (locked)
        refuse(folder, fd, err);
    if (fd >= 0)
        close(fd);
    free(path);
    return !locked;
}

const char *zt_folder_unlockable(const struct zt_folder_lock *lock) {
    return lock->unlockable ? strerror(lock->unlockable) : NULL;
}

/* Removes the file while it is locked; a process that has opened it meanwhile detects this with is_current(). */
void zt_folder_unlock(struct zt_folder_lock *lock) {
    if (!lock)
        return;
    unlink(lock->path);
    close(lock->fd);
    free(lock->path);
    free(lock);
}
