#include "report/append_file.h"

#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fail(const struct zt_append_file *f, const char *what, struct zt_err *err) {
    return zt_fail(err, ZT_EXIT_DATA, "%s: %s%s", f->path, what, strerror(errno));
}

bool zt_append_file_open(struct zt_append_file *f, const char *path, bool fresh, struct zt_err *err) {
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    *f = (struct zt_append_file){ .path = zt_strdup(path) };
    f->file = open(path, flags | (fresh ? O_EXCL : 0), 0666);
    if (f->file >= 0)
        return true;
    fail(f, "", err);
    free(f->path);
    *f = (struct zt_append_file){ .file = -1 };
    return false;
}

bool zt_append_file_is_empty(const struct zt_append_file *f) {
    return f->pending.length == 0 && lseek(f->file, 0, SEEK_END) == 0;
}

bool zt_append_file_flush(struct zt_append_file *f, bool sync, struct zt_err *err) {
    for (size_t done = 0; f->path && done < f->pending.length;) {
        ssize_t n = write(f->file, f->pending.at + done, f->pending.length - done);
        if (n < 0 && errno != EINTR)
            return fail(f, "cannot be written: ", err);
        done += n > 0 ? (size_t)n : 0;
    }
    f->pending.length = 0;
    return !sync || !f->path || fdatasync(f->file) == 0 || errno == EINVAL || errno == EROFS ||
           fail(f, "cannot flush to disk: ", err);
}

bool zt_append_file_close(struct zt_append_file *f, struct zt_err *err) {
    bool ok = !f->path || zt_append_file_flush(f, false, err);
    if (f->path && close(f->file) != 0 && ok)
        ok = fail(f, "cannot be written: ", err);
    zt_text_finish(&f->pending);
    free(f->path);
    *f = (struct zt_append_file){ .file = -1 };
    return ok;
}
