#include "parallel/launch/error_once.h"

#include "base/map.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOOK_MS = 50, KEEP_MS = 1000 };

struct name {
    struct sockaddr_un address;
    socklen_t length;
};

static struct name name_of(const struct zt_err *err, const char *job) {
    struct name n = { .address = { .sun_family = AF_UNIX } };
    const int lines = err->count < ZT_ERR_LINES ? err->count : ZT_ERR_LINES;
    uint64_t hash = zt_hash(ZT_HASH_START, job, strlen(job));
    for (int i = 0; i < lines; i++)
        hash = zt_hash(hash, err->text[i], strlen(err->text[i]) + 1);
    char *const text = n.address.sun_path + 1; /* behind a NUL byte: abstract */
    const int length = snprintf(text, sizeof n.address.sun_path - 1, "ztrain-error-%u-%016llx", (unsigned)getuid(),
                                (unsigned long long)hash);
    n.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return n;
}

static int make_socket(void) {
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static bool is_held(const struct name *n) {
    const int fd = make_socket();
    if (fd < 0)
        return false;
    const bool held = connect(fd, (const struct sockaddr *)&n->address, n->length) == 0;
    close(fd);
    return held;
}

bool zt_error_claim(const struct zt_err *err, const char *job, int rank, int patience_ms, int *claim) {
    const struct name n = name_of(err, job);
    for (int waited = 0; rank > 0 && waited < patience_ms; waited += LOOK_MS) {
        if (is_held(&n))
            return false;
        poll(NULL, 0, LOOK_MS);
    }
    *claim = make_socket();
    if (*claim < 0 || bind(*claim, (const struct sockaddr *)&n.address, n.length) == 0)
        return true;
    close(*claim);
    *claim = -1;
    return rank == 0;
}

void zt_error_release(int claim) {
    if (claim < 0)
        return;
    poll(NULL, 0, KEEP_MS);
    close(claim);
}
