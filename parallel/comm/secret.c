#include "parallel/comm/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool zt_secret_hint(struct zt_err *err) {
    return zt_hint(err, "give all ranks of the job the same random text: " ZT_SECRET_VARIABLE
                        "=$(openssl rand -hex 32), or " ZT_SECRET_FILE_VARIABLE
                        "=FILE, a file with the text that only you can read");
}

static bool take_text(struct zt_secret *to, const char *name, const char *text, size_t bytes, struct zt_err *err) {
    while (bytes && strchr(" \t\r\n", text[bytes - 1]))
        bytes--;
    if (bytes < ZT_SECRET_LEAST || bytes > ZT_SECRET_MOST) {
        zt_fail(err, ZT_EXIT_CONFIG, "environment: %s: the secret has %zu bytes, allowed are %d to %d", name, bytes,
                ZT_SECRET_LEAST, ZT_SECRET_MOST);
        return zt_secret_hint(err);
    }
    zt_mac_key(to->key, text, bytes);
    to->given = true;
    return true;
}

/* As ssh wants it of a private key. Root's own checks are those of the file's owner. */
static bool check_file(const struct stat *s, const char *path, struct zt_err *err) {
    if (!S_ISREG(s->st_mode))
        return zt_fail(err, ZT_EXIT_CONFIG, ZT_SECRET_FILE_VARIABLE "=%s: is no regular file", path);
    if (s->st_uid != geteuid() && s->st_uid != 0)
        return zt_fail(err, ZT_EXIT_CONFIG, ZT_SECRET_FILE_VARIABLE "=%s: belongs to another user", path);
    if (!(s->st_mode & 077))
        return true;
    zt_fail(err, ZT_EXIT_CONFIG, ZT_SECRET_FILE_VARIABLE "=%s: mode %04o lets other users read or change the secret",
            path, (unsigned)s->st_mode & 07777);
    return zt_hint(err, "chmod 600 %s", path);
}

static bool read_file(struct zt_secret *to, const char *path, struct zt_err *err) {
    char text[ZT_SECRET_MOST + 2];
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO does not hold the run up */
    bool ok = fd >= 0 && fstat(fd, &s) == 0;
    if (!ok)
        zt_fail(err, ZT_EXIT_CONFIG, ZT_SECRET_FILE_VARIABLE "=%s: %s", path, strerror(errno));
    ok = ok && check_file(&s, path, err);
    ssize_t n = ok ? read(fd, text, sizeof text) : 0;
    if (ok && n < 0)
        ok = zt_fail(err, ZT_EXIT_CONFIG, ZT_SECRET_FILE_VARIABLE "=%s: %s", path, strerror(errno));
    ok = ok && take_text(to, ZT_SECRET_FILE_VARIABLE, text, (size_t)n, err);
    zt_mac_forget(text, sizeof text);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Overwrites the secret before unsetenv(), which leaves the text in memory. */
static void take_out(char *text) {
    zt_mac_forget(text, strlen(text));
    unsetenv(ZT_SECRET_VARIABLE);
}

bool zt_secret_find(struct zt_secret *to, struct zt_err *err) {
    char *text = getenv(ZT_SECRET_VARIABLE);
    const char *path = getenv(ZT_SECRET_FILE_VARIABLE);
    *to = (struct zt_secret){ .given = false };
    zt_mac_key(to->key, "", 0);
    if (text && path)
        return zt_fail(err, ZT_EXIT_CONFIG,
                       "environment: " ZT_SECRET_VARIABLE " and " ZT_SECRET_FILE_VARIABLE
                       " are both set: give one of them");
    if (path)
        return read_file(to, path, err);
    bool ok = !text || take_text(to, ZT_SECRET_VARIABLE, text, strlen(text), err);
    if (text)
        take_out(text);
    return ok;
}
