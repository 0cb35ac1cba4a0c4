#include "parallel/comm/connect.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* A socket that connects to a port of its own host may be assigned the same local port: then it is connected to itself.
 */
static bool is_own_echo(int fd) {
    struct sockaddr_storage here = { 0 }, there = { 0 };
    socklen_t a = sizeof here, b = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &a) != 0 || getpeername(fd, (struct sockaddr *)&there, &b) != 0 ||
           (a == b && memcmp(&here, &there, a) == 0);
}

int zt_connect_at(const struct sockaddr *to, socklen_t bytes, int ms) {
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0, yes = 1;
    socklen_t size = sizeof error;
    if (fd < 0)
        return -1;
    bool ok = connect(fd, to, bytes) == 0;
    if (!ok && errno == EINPROGRESS) {
        struct pollfd wait = { .fd = fd, .events = POLLOUT };
        ok = poll(&wait, 1, ms) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    }
    if (ok && !is_own_echo(fd) && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0)
        return fd;
    close(fd);
    return -1;
}

int zt_connect(const char *host, const char *port, int ms) {
    struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST }, *found;
    int fd = -1;
    if (getaddrinfo(host, port, &want, &found) != 0)
        return -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = zt_connect_at(a->ai_addr, a->ai_addrlen, ms);
    freeaddrinfo(found);
    return fd;
}

bool zt_connection_transfer(int fd, void *data, size_t bytes, bool sends, double end) {
    char *at = data;
    for (double now = zt_now(); bytes && now < end; now = zt_now()) {
        ssize_t n = sends ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd wait = { .fd = fd, .events = sends ? POLLOUT : POLLIN };
            poll(&wait, 1, end - now < 0.1 ? (int)((end - now) * 1e3) + 1 : 100);
            continue;
        }
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return bytes == 0;
}
