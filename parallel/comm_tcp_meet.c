#include "parallel/comm_tcp_meet.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "parallel/addresses.h"
#include "parallel/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TOKEN = 16, GUESTS = 64, AGAIN_MS = 100 };
#define GUEST_SECONDS 1.0

static const char magic[16] = "ztrain ranks 1";

struct hello {
    char magic[16], token[TOKEN];
    int32_t rank, size;
    uint16_t port, unused[3];
};

/* Where a rank listens, as rank 0 sees it: an address of IPv6, or one of IPv4 in its form. */
struct place {
    struct in6_addr at;
    uint16_t port, unused[3];
};

/* Then follow `size` places where it is the rank's own world. */
struct answer {
    char magic[16], token[TOKEN];
    int32_t size, taken; /* taken: another process has that rank */
};

/* A connection that has not said all of its hello. */
struct guest {
    int fd;
    size_t have;
    double since;
    struct hello hello;
};

struct table {
    const struct zt_meeting *m;
    int listener;
    uint16_t port;
    double end;
    char token[TOKEN];
    struct place *places;
    int *fds;
    struct guest guests[GUESTS];
    int guest_count;
};

/* ---- listening ---- */

static bool listen_at(struct table *t, int port) {
    bool six;
    t->port = (uint16_t)port;
    t->listener = zt_bind_all(SOCK_STREAM, &t->port, &six);
    return t->listener >= 0 && listen(t->listener, SOMAXCONN) == 0;
}

/* ---- guests ---- */

static void add_guest(struct table *t) {
    int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        t->guests[t->guest_count++] = (struct guest){ .fd = fd, .since = zt_now() };
}

static void remove_guest(struct table *t, int i) {
    t->guests[i] = t->guests[--t->guest_count];
}

static void send_answer(const struct table *t, int fd, bool taken) {
    struct answer a = { .size = t->m->size, .taken = taken };
    memcpy(a.magic, magic, sizeof magic);
    if (send(fd, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof a)
        return; /* it is refused, told or not */
}

static struct place place_of(int fd, uint16_t port) {
    struct sockaddr_in6 from = { 0 };
    socklen_t size = sizeof from;
    struct place p = { .port = port };
    getpeername(fd, (struct sockaddr *)&from, &size);
    p.at = from.sin6_family == AF_INET6 ? from.sin6_addr
                                        : zt_address_of_ipv4(((struct sockaddr_in *)(void *)&from)->sin_addr);
    return p;
}

/* Whether the hello of a guest is that of a rank this one waits for, which then has its line. */
static bool take_hello(struct table *t, const struct guest *g) {
    const struct hello *h = &g->hello;
    bool here = t->m->rank == 0;
    if (memcmp(h->magic, magic, sizeof magic) != 0 || (!here && memcmp(h->token, t->token, TOKEN) != 0))
        return false;
    bool wanted = h->size == t->m->size && h->rank > t->m->rank && h->rank < t->m->size;
    if (here && (!wanted || t->fds[h->rank] >= 0))
        send_answer(t, g->fd, wanted);
    if (!wanted || t->fds[h->rank] >= 0)
        return false;
    t->fds[h->rank] = g->fd;
    if (here)
        t->places[h->rank] = place_of(g->fd, h->port);
    return true;
}

/* Reads what has come of guest i. False: it is no guest any more. */
static bool hear(struct table *t, int i) {
    struct guest *g = &t->guests[i];
    ssize_t n = recv(g->fd, (char *)&g->hello + g->have, sizeof g->hello - g->have, MSG_DONTWAIT);
    bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n > 0)
        g->have += (size_t)n;
    if ((n > 0 || waits) && g->have < sizeof g->hello && zt_now() - g->since < GUEST_SECONDS)
        return true;
    if (g->have < sizeof g->hello || !take_hello(t, g))
        close(g->fd);
    remove_guest(t, i);
    return false;
}

static int missing(const struct table *t, int first) {
    int r = first;
    while (r < t->m->size && t->fds[r] >= 0)
        r++;
    return r;
}

/* Until every rank above this one has a line. */
static bool wait_for_all(struct table *t) {
    while (missing(t, t->m->rank + 1) < t->m->size && zt_now() < t->end) {
        /* where all chairs are taken who comes waits outside */
        struct pollfd wait[GUESTS + 1] = { { .fd = t->guest_count < GUESTS ? t->listener : -1, .events = POLLIN } };
        for (int i = 0; i < t->guest_count; i++)
            wait[i + 1] = (struct pollfd){ .fd = t->guests[i].fd, .events = POLLIN };
        poll(wait, (nfds_t)t->guest_count + 1, AGAIN_MS);
        for (int i = 0; i < t->guest_count;)
            i += hear(t, i);
        if (wait[0].revents)
            add_guest(t);
    }
    return missing(t, t->m->rank + 1) == t->m->size;
}

/* ---- bytes ---- */

static bool move_all(const struct table *t, int fd, void *data, size_t bytes, bool sends) {
    char *at = data;
    while (bytes && zt_now() < t->end) {
        ssize_t n = sends ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd wait = { .fd = fd, .events = sends ? POLLOUT : POLLIN };
            poll(&wait, 1, AGAIN_MS);
            continue;
        }
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return bytes == 0;
}

static bool say_hello(const struct table *t, int fd) {
    struct hello h = { .rank = t->m->rank, .size = t->m->size, .port = t->port };
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.token, t->token, TOKEN);
    return move_all(t, fd, &h, sizeof h, true);
}

/* ---- rank 0 ---- */

static bool some_missing(const struct table *t, struct zt_err *err) {
    struct zt_text list = { 0 };
    int absent = 0;
    for (int r = t->m->rank + 1; r < t->m->size; r++)
        if (t->fds[r] < 0 && absent++ < 8)
            zt_text_add(&list, "%s%d", absent > 1 ? ", " : "", r);
    zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%s%s: %d of WORLD_SIZE=%d ranks came to MASTER_PORT=%d within %d s",
            list.at, absent > 8 ? ", ..." : "", t->m->size - absent, t->m->size, t->m->port, t->m->seconds);
    zt_text_finish(&list);
    return zt_hint(err,
                   "is every rank started, with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and the port open?");
}

static bool host(struct table *t, struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    struct answer a = { .size = m->size };
    if (!listen_at(t, m->port)) {
        zt_fail(err, ZT_EXIT_RUN, "MASTER_PORT=%d: rank 0 cannot listen there: %s", m->port, strerror(errno));
        const char *kept = getenv("TORCHELASTIC_USE_AGENT_STORE");
        return zt_hint(err, "%s",
                       kept && strcmp(kept, "True") == 0
                           ? "torchrun keeps it: start it with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
                           : "set another MASTER_PORT for all ranks");
    }
    if (getrandom(t->token, TOKEN, 0) != TOKEN)
        return zt_fail(err, ZT_EXIT_RUN, "the system gives no random numbers: %s", strerror(errno));
    if (!wait_for_all(t))
        return some_missing(t, err);
    memcpy(a.magic, magic, sizeof magic);
    memcpy(a.token, t->token, TOKEN);
    for (int r = 1; r < m->size; r++)
        if (!move_all(t, t->fds[r], &a, sizeof a, true) ||
            !move_all(t, t->fds[r], t->places, (size_t)m->size * sizeof *t->places, true))
            return zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%d: it left before all had met", r);
    return true;
}

/* ---- the others ---- */

/* The line to rank 0, which may start later than this one. */
static int dial_host(const struct table *t) {
    char port[8];
    snprintf(port, sizeof port, "%d", t->m->port);
    for (;;) {
        int left = (int)((t->end - zt_now()) * 1e3);
        int fd = left > 0 ? zt_dial(t->m->address, port, 0, left < 2000 ? left : 2000) : -1;
        if (fd >= 0 || left <= 0)
            return fd;
        nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * 1000000L }, NULL);
    }
}

static bool hear_answer(struct table *t, struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    struct answer a = { 0 };
    if (!move_all(t, t->fds[0], &a, sizeof a, false))
        return zt_fail(err, ZT_EXIT_RANK, "rank 0: not all ranks came, or it has ended");
    if (memcmp(a.magic, magic, sizeof magic) != 0)
        return zt_fail(err, ZT_EXIT_RUN, "MASTER_ADDR=%s, MASTER_PORT=%d: what answers there is no rank 0 of ztrain",
                       m->address, m->port);
    if (a.size != m->size)
        return zt_fail(err, ZT_EXIT_CONFIG, "WORLD_SIZE=%d, but rank 0 at MASTER_ADDR=%s has WORLD_SIZE=%d", m->size,
                       m->address, a.size);
    if (a.taken)
        return zt_fail(err, ZT_EXIT_CONFIG, "RANK=%d: another process has come to MASTER_ADDR=%s with it", m->rank,
                       m->address);
    memcpy(t->token, a.token, TOKEN);
    return move_all(t, t->fds[0], t->places, (size_t)m->size * sizeof *t->places, false) ||
           zt_fail(err, ZT_EXIT_RANK, "rank 0: it ended before all had met");
}

static bool is_loopback(const struct in6_addr *a) {
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

/* A rank that came to rank 0 over loopback is on its host, whose own address is the one that all know. */
static int dial_place(const struct table *t, const struct place *p) {
    struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = p->at, .sin6_port = htons(p->port) };
    char host[INET6_ADDRSTRLEN], port[8];
    snprintf(port, sizeof port, "%d", p->port);
    if (is_loopback(&p->at))
        return zt_dial(t->m->address, port, 0, 5000);
    if (IN6_IS_ADDR_V4MAPPED(&to.sin6_addr))
        snprintf(host, sizeof host, "%d.%d.%d.%d", p->at.s6_addr[12], p->at.s6_addr[13], p->at.s6_addr[14],
                 p->at.s6_addr[15]);
    else
        inet_ntop(AF_INET6, &p->at, host, sizeof host);
    return zt_dial(host, port, AI_NUMERICHOST, 5000);
}

/* Lower ranks listen already: rank 0 has answered, so all have come. */
static bool visit(struct table *t, struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    if (!listen_at(t, 0))
        return zt_fail(err, ZT_EXIT_RUN, "rank %d cannot listen: %s", m->rank, strerror(errno));
    if ((t->fds[0] = dial_host(t)) < 0) {
        zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "0: nobody answers at MASTER_ADDR=%s, MASTER_PORT=%d within %d s",
                m->address, m->port, m->seconds);
        return zt_hint(err, "rank 0 listens there: is it started, and the port open?");
    }
    if (!say_hello(t, t->fds[0]))
        return zt_fail(err, ZT_EXIT_RANK, "rank 0: it ended before all had met");
    if (!hear_answer(t, err))
        return false;
    for (int r = 1; r < m->rank; r++)
        if ((t->fds[r] = dial_place(t, &t->places[r])) < 0 || !say_hello(t, t->fds[r]))
            return zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%d: rank %d cannot reach it", r, m->rank);
    return wait_for_all(t) || some_missing(t, err);
}

bool zt_tcp_meet(const struct zt_meeting *m, int *fds, struct zt_err *err) {
    struct table *t = zt_calloc(1, sizeof *t);
    *t = (struct table){ .m = m, .listener = -1, .end = zt_now() + m->seconds, .fds = fds };
    t->places = zt_calloc((size_t)m->size, sizeof *t->places);
    for (int r = 0; r < m->size; r++)
        fds[r] = -1;
    bool ok = m->rank == 0 ? host(t, err) : visit(t, err);
    for (int r = 0; !ok && r < m->size; r++)
        if (fds[r] >= 0)
            close(fds[r]);
    for (int i = 0; i < t->guest_count; i++)
        close(t->guests[i].fd);
    if (t->listener >= 0)
        close(t->listener);
    free(t->places);
    free(t);
    return ok;
}
