#include "parallel/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static int connect_within(const struct addrinfo *to, int ms) {
    int fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0, yes = 1;
    socklen_t size = sizeof error;
    if (fd < 0)
        return -1;
    bool ok = connect(fd, to->ai_addr, to->ai_addrlen) == 0;
    if (!ok && errno == EINPROGRESS) {
        struct pollfd wait = { .fd = fd, .events = POLLOUT };
        ok = poll(&wait, 1, ms) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    }
    if (ok && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0)
        return fd;
    close(fd);
    return -1;
}

int zt_dial(const char *host, const char *port, int flags, int ms) {
    struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags }, *found;
    int fd = -1;
    if (getaddrinfo(host, port, &want, &found) != 0)
        return -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = connect_within(a, ms);
    freeaddrinfo(found);
    return fd;
}
