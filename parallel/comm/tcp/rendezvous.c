#include "parallel/comm/tcp/rendezvous.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "parallel/comm/addresses.h"
#include "parallel/comm/tcp/address.h"
#include "parallel/comm/connect.h"
#include "parallel/comm/handshake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PENDING_CONNECTIONS = 128, UNAUTHENTICATED = 4, AGAIN_MS = 100, DIAL_MS = 5000 };
#define GUEST_SECONDS 1.0

/* The address at which a rank listens, as rank 0 sees it: IPv6, or IPv4 mapped to IPv6. */
struct place {
    struct in6_addr at;
    uint16_t port, unused[3];
};

/* A connection that is not through the handshake. */
struct connection {
    int fd;
    double since;
    struct zt_handshake handshake;
};

/* One that said to be a rank and had another secret. */
struct unauthenticated {
    int rank;
    struct in6_addr at;
};

struct table {
    const struct zt_meeting *m;
    int listener[ZT_MEETING_ADDRESSES], listeners;
    uint16_t port;
    double end;
    struct zt_listener_identity identity;
    unsigned char (*session)[ZT_MAC]; /* by rank; rank 0's, of the others [0] alone is used */
    struct place *places;
    int *fds;
    struct connection connections[PENDING_CONNECTIONS];
    int connection_count;
    struct unauthenticated unauthenticated_peers[UNAUTHENTICATED];
    int unauthenticated_count;
};

/* ---- listening ---- */

static bool listen_at(struct table *t, const struct in6_addr *at) {
    int fd = zt_listen_at(at, &t->port);
    if (fd >= 0)
        t->listener[t->listeners++] = fd;
    return fd >= 0;
}

static void stop_listening(struct table *t) {
    while (t->listeners)
        close(t->listener[--t->listeners]);
}

/* ---- connections ---- */

static void remove_connection(struct table *t, int i, bool keep_open) {
    if (!keep_open)
        close(t->connections[i].fd);
    t->connections[i] = t->connections[--t->connection_count];
}

static int slowest_connection(const struct table *t) {
    int least = 0;
    for (int i = 1; i < t->connection_count; i++) {
        const struct connection *a = &t->connections[i], *b = &t->connections[least];
        const size_t said = zt_handshake_received_bytes(&a->handshake),
                     before = zt_handshake_received_bytes(&b->handshake);
        if (said < before || (said == before && a->since < b->since))
            least = i;
    }
    return least;
}

/* Small records on a new line: the system has room for them, or the line is of no use. */
static bool send_now(int fd, const void *record, size_t bytes) {
    return send(fd, record, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

static void note_unauthenticated(struct table *t, const struct connection *g) {
    struct unauthenticated s = { .rank = g->handshake.hello.from, .at = zt_address_there(g->fd) };
    for (int i = 0; i < t->unauthenticated_count; i++)
        if (memcmp(&t->unauthenticated_peers[i].at, &s.at, sizeof s.at) == 0 &&
            t->unauthenticated_peers[i].rank == s.rank)
            return;
    if (t->unauthenticated_count < UNAUTHENTICATED)
        t->unauthenticated_peers[t->unauthenticated_count++] = s;
}

static enum zt_handshake_result decide(const struct table *t, const struct zt_handshake *v) {
    const struct zt_hello *h = &v->hello;
    if (v->state == ZT_HANDSHAKE_FALSE_PROOF)
        return ZT_SECRET_MISMATCH;
    if (h->size != t->m->size)
        return ZT_WORLD_SIZE_MISMATCH;
    if (h->from <= t->m->rank || h->from >= t->m->size)
        return ZT_RANK_NOT_EXPECTED;
    return t->fds[h->from] >= 0 ? ZT_RANK_TAKEN : ZT_HANDSHAKE_OK;
}

/* Answers a peer that has sent its proof. True: the peer is a rank, and the connection is now its own. */
static bool receive(struct table *t, const struct connection *g) {
    const int rank = g->handshake.hello.from;
    const enum zt_handshake_result result = decide(t, &g->handshake);
    const struct zt_handshake_reply_record w = zt_handshake_reply(&g->handshake, &t->identity, result);
    if (result == ZT_SECRET_MISMATCH)
        note_unauthenticated(t, g);
    if (!send_now(g->fd, &w, sizeof w) || result != ZT_HANDSHAKE_OK)
        return false;
    t->fds[rank] = g->fd;
    t->places[rank] = (struct place){ .at = zt_address_there(g->fd), .port = g->handshake.hello.port };
    zt_handshake_session(t->session[rank], t->identity.key, &g->handshake.hello, &g->handshake.challenge);
    return true;
}

/* Continues the handshake of connection i after it received bytes. False: the connection was removed from the list. */
static bool advance_connection(struct table *t, int i, enum zt_handshake_state before) {
    struct connection *g = &t->connections[i];
    if (g->handshake.state == ZT_HANDSHAKE_PROVEN || g->handshake.state == ZT_HANDSHAKE_FALSE_PROOF) {
        remove_connection(t, i, receive(t, g));
        return false;
    }
    bool begins = before == ZT_HANDSHAKE_AWAITS_HELLO && g->handshake.state == ZT_HANDSHAKE_AWAITS_PROOF;
    if (g->handshake.state != ZT_HANDSHAKE_MALFORMED &&
        (!begins || send_now(g->fd, &g->handshake.challenge, sizeof g->handshake.challenge)))
        return true;
    remove_connection(t, i, false);
    return false;
}

/* Reads from connection i, at most to the end of the current record. False: the connection was removed from the list.
 */
static bool receive_from(struct table *t, int i) {
    unsigned char bytes[sizeof(struct zt_hello)];
    struct connection *g = &t->connections[i];
    const enum zt_handshake_state before = g->handshake.state;
    ssize_t n = recv(g->fd, bytes, zt_handshake_missing_bytes(&g->handshake), MSG_DONTWAIT);
    bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);
    if ((n > 0 || waits) && zt_now() - g->since < GUEST_SECONDS) {
        if (n > 0)
            zt_handshake_receive(&g->handshake, &t->identity, bytes, (size_t)n);
        return advance_connection(t, i, waits ? g->handshake.state : before);
    }
    remove_connection(t, i, false);
    return false;
}

/* All that wait at a listener, up to as many as there are chairs. */
static void accept_connections(struct table *t, int listener) {
    for (int taken = 0; taken < PENDING_CONNECTIONS; taken++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (t->connection_count == PENDING_CONNECTIONS)
            remove_connection(t, slowest_connection(t), false);
        struct connection *g = &t->connections[t->connection_count++];
        *g = (struct connection){ .fd = fd, .since = zt_now() };
        if (zt_random(g->handshake.challenge.nonce, sizeof g->handshake.challenge.nonce))
            receive_from(t, t->connection_count - 1);
        else
            remove_connection(t, t->connection_count - 1, false);
    }
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
        struct pollfd wait[PENDING_CONNECTIONS + ZT_MEETING_ADDRESSES];
        const int connections = t->connection_count;
        for (int i = 0; i < connections; i++)
            wait[i] = (struct pollfd){ .fd = t->connections[i].fd, .events = POLLIN };
        for (int i = 0; i < t->listeners; i++)
            wait[connections + i] = (struct pollfd){ .fd = t->listener[i], .events = POLLIN };
        poll(wait, (nfds_t)(connections + t->listeners), AGAIN_MS);
        for (int i = 0; i < t->connection_count;)
            i += receive_from(t, i);
        for (int i = 0; i < t->listeners; i++)
            if (wait[connections + i].revents)
                accept_connections(t, t->listener[i]);
    }
    return missing(t, t->m->rank + 1) == t->m->size;
}

/* ---- errors ---- */

static void list_unauthenticated(const struct table *t, struct zt_text *to) {
    char at[INET6_ADDRSTRLEN];
    for (int i = 0; i < t->unauthenticated_count; i++)
        zt_text_add(to, "%s rank %d from %s",
                    i ? "," : "; connected with another secret:", t->unauthenticated_peers[i].rank,
                    zt_address_text(&t->unauthenticated_peers[i].at, at));
}

static bool some_missing(const struct table *t, struct zt_err *err) {
    struct zt_text list = { 0 }, unauthenticated_peers = { 0 };
    int absent = 0;
    for (int r = t->m->rank + 1; r < t->m->size; r++)
        if (t->fds[r] < 0 && absent++ < 8)
            zt_text_add(&list, "%s%d", absent > 1 ? ", " : "", r);
    zt_text_add(&list, "%s", absent > 8 ? ", ..." : "");
    list_unauthenticated(t, &unauthenticated_peers);
    zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%s: %d of WORLD_SIZE=%d ranks connected to MASTER_PORT=%d within %d s%s",
            list.at, t->m->size - absent, t->m->size, t->m->port, t->m->seconds,
            unauthenticated_peers.at ? unauthenticated_peers.at : "");
    zt_text_finish(&list);
    zt_text_finish(&unauthenticated_peers);
    if (t->unauthenticated_count)
        return zt_secret_hint(err);
    return zt_hint(err,
                   "is every rank started, with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and the port open?");
}

/* Why rank `to` did not let this one in. */
static bool refused(const struct table *t, enum zt_handshake_result result, int to,
                    const struct zt_handshake_reply_record *w, struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    if (result == ZT_WORLD_SIZE_MISMATCH)
        return zt_fail(err, ZT_EXIT_CONFIG, "WORLD_SIZE=%d, but rank %d at MASTER_ADDR=%s has WORLD_SIZE=%d", m->size,
                       to, m->address, w->size);
    if (result == ZT_RANK_TAKEN)
        return zt_fail(err, ZT_EXIT_CONFIG,
                       "RANK=%d: another process has already connected to MASTER_ADDR=%s with this rank", m->rank,
                       m->address);
    if (result == ZT_RANK_NOT_EXPECTED)
        return zt_fail(err, ZT_EXIT_CONFIG, "RANK=%d: rank %d at MASTER_ADDR=%s expects no such rank", m->rank, to,
                       m->address);
    if (result == ZT_PROTOCOL_MISMATCH)
        return zt_fail(err, ZT_EXIT_RUN,
                       "MASTER_ADDR=%s, MASTER_PORT=%d: the process that answers there is not rank 0 of ztrain",
                       m->address, m->port);
    zt_fail(err, ZT_EXIT_CONFIG, "RANK=%d: rank %d at MASTER_ADDR=%s, MASTER_PORT=%d %s", m->rank, to, m->address,
            m->port, result == ZT_SECRET_MISMATCH ? "has another secret" : "does not prove that it knows the secret");
    return zt_secret_hint(err);
}

/* ---- rank 0 ---- */

static bool cannot_listen(const struct zt_meeting *m, int why, struct zt_err *err) {
    zt_fail(err, why == EADDRNOTAVAIL ? ZT_EXIT_CONFIG : ZT_EXIT_RUN,
            "MASTER_ADDR=%s, MASTER_PORT=%d: rank 0 cannot listen there: %s", m->address, m->port, strerror(why));
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (why == EADDRNOTAVAIL)
        return zt_hint(err, "set MASTER_ADDR to an address of the host of rank 0");
    return zt_hint(err, "%s",
                   agent && strcmp(agent, "True") == 0
                       ? "torchrun keeps it: start it with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
                       : "set another MASTER_PORT for all ranks");
}

/* The addresses that MASTER_ADDR names, and no others. A name server may be asked again while there is time. */
static bool open_host(struct table *t, struct zt_err *err) {
    struct in6_addr at[ZT_MEETING_ADDRESSES];
    int count, why = EADDRNOTAVAIL;
    while ((count = zt_meeting_addresses(t->m, at, err)) == 0 && zt_now() < t->end)
        nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * 1000000L }, NULL);
    if (count == 0)
        return zt_fail(err, ZT_EXIT_CONFIG, "MASTER_ADDR=%s: no address is known for this name", t->m->address);
    t->port = (uint16_t)t->m->port;
    for (int i = 0; i < count; i++)
        if (!listen_at(t, &at[i]) && errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) /* a host without IPv6 */
            why = errno;
    return count > 0 && ((t->listeners && why == EADDRNOTAVAIL) || cannot_listen(t->m, why, err));
}

static bool host(struct table *t, struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    const size_t bytes = (size_t)m->size * sizeof *t->places;
    unsigned char mac[ZT_MAC];
    if (!zt_random(t->identity.job, sizeof t->identity.job))
        return zt_fail(err, ZT_EXIT_RUN, "the system has no random numbers: %s", strerror(errno));
    if (!open_host(t, err))
        return false;
    if (!wait_for_all(t))
        return some_missing(t, err);
    for (int r = 1; r < m->size; r++) {
        zt_mac(mac, t->session[r], "places", &(struct zt_mac_part){ t->places, bytes }, 1);
        if (!zt_connection_transfer(t->fds[r], t->places, bytes, true, t->end) ||
            !zt_connection_transfer(t->fds[r], mac, sizeof mac, true, t->end))
            return zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%d: it disconnected before all ranks had connected", r);
    }
    return true;
}

/* ---- the others ---- */

static int left_ms(const struct table *t, int most) {
    const double left = (t->end - zt_now()) * 1e3;
    return left <= 0 ? 0 : left < most ? (int)left + 1 : most;
}

/* One attempt at rank `to`. Rank 0's challenge says which job it is. */
static enum zt_handshake_result connect_rank(struct table *t, int to, const struct zt_sockaddr *at,
                                             struct zt_handshake_reply_record *w) {
    struct zt_hello hello = {
        .purpose = ZT_PURPOSE_RANKS, .from = t->m->rank, .to = to, .size = t->m->size, .port = t->port
    };
    struct zt_challenge challenge;
    int fd = zt_connect_at((const struct sockaddr *)&at->at, at->bytes, left_ms(t, to ? DIAL_MS : 2000));
    if (fd < 0)
        return ZT_CONNECTION_LOST;
    if (to == 0) { /* the others reach this rank where rank 0 does */
        const struct in6_addr here = zt_address_here(fd);
        stop_listening(t);
        t->port = 0;
        if (!listen_at(t, &here)) {
            close(fd);
            return ZT_CONNECTION_LOST;
        }
        hello.port = t->port;
    }
    memcpy(hello.job, t->identity.job, sizeof hello.job);
    const enum zt_handshake_result result = zt_handshake_connect(fd, t->identity.key, &hello, &challenge, w, t->end);
    if (result == ZT_HANDSHAKE_OK) {
        t->fds[to] = fd;
        memcpy(t->identity.job, challenge.job, sizeof t->identity.job);
        zt_handshake_session(t->session[to], t->identity.key, &hello, &challenge);
    } else {
        close(fd);
    }
    return result;
}

static enum zt_handshake_result connect_rank_0(struct table *t, struct zt_handshake_reply_record *w,
                                               struct zt_err *err) {
    struct in6_addr at[ZT_MEETING_ADDRESSES];
    enum zt_handshake_result result = ZT_CONNECTION_LOST;
    int count = zt_meeting_addresses(t->m, at, err);
    for (int i = 0; i < count && result == ZT_CONNECTION_LOST && left_ms(t, 1); i++) {
        struct zt_sockaddr to = zt_sockaddr_of(&at[i], (uint16_t)t->m->port);
        result = connect_rank(t, 0, &to, w);
    }
    return result;
}

/* Rank 0 may start later than this one; one that listens may have to serve other connections first. */
static bool reach_host(struct table *t, struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    for (;;) {
        struct zt_handshake_reply_record w;
        const enum zt_handshake_result result = connect_rank_0(t, &w, err);
        if (err->count || result == ZT_HANDSHAKE_OK)
            return !err->count;
        if (result != ZT_CONNECTION_LOST)
            return refused(t, result, 0, &w, err);
        if (!left_ms(t, 1))
            break;
        nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * 1000000L }, NULL);
    }
    zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "0: no answer from MASTER_ADDR=%s, MASTER_PORT=%d within %d s", m->address,
            m->port, m->seconds);
    return zt_hint(err, "rank 0 listens there: is it started, and the port open?");
}

static bool hear_places(struct table *t, struct zt_err *err) {
    const size_t bytes = (size_t)t->m->size * sizeof *t->places;
    unsigned char mac[ZT_MAC], wanted[ZT_MAC];
    if (!zt_connection_transfer(t->fds[0], t->places, bytes, false, t->end) ||
        !zt_connection_transfer(t->fds[0], mac, sizeof mac, false, t->end))
        return zt_fail(err, ZT_EXIT_RANK, "rank 0: not all ranks have connected, or it has ended");
    zt_mac(wanted, t->session[0], "places", &(struct zt_mac_part){ t->places, bytes }, 1);
    return zt_mac_equal(mac, wanted, sizeof mac) ||
           zt_fail(err, ZT_EXIT_RUN, "rank 0 at MASTER_ADDR=%s: its list of ranks was modified in transit",
                   t->m->address);
}

/* Lower ranks listen already: rank 0 has told of them, so all have come. */
static bool reach_rank(struct table *t, int to, struct zt_err *err) {
    const struct zt_sockaddr at = zt_sockaddr_of(&t->places[to].at, t->places[to].port);
    const double end = zt_now() + DIAL_MS * 1e-3;
    struct zt_handshake_reply_record w;
    enum zt_handshake_result result;
    while ((result = connect_rank(t, to, &at, &w)) == ZT_CONNECTION_LOST && zt_now() < end && left_ms(t, 1))
        nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * 1000000L }, NULL);
    if (result == ZT_CONNECTION_LOST)
        return zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%d: rank %d cannot reach it", to, t->m->rank);
    return result == ZT_HANDSHAKE_OK || refused(t, result, to, &w, err);
}

static bool join(struct table *t, struct zt_err *err) {
    if (!reach_host(t, err) || !hear_places(t, err))
        return false;
    for (int r = 1; r < t->m->rank; r++)
        if (!reach_rank(t, r, err))
            return false;
    return wait_for_all(t) || some_missing(t, err);
}

bool zt_tcp_meet(const struct zt_meeting *m, int *fds, struct zt_err *err) {
    struct table *t = zt_calloc(1, sizeof *t);
    *t = (struct table){ .m = m, .end = zt_now() + m->seconds, .fds = fds };
    t->identity = (struct zt_listener_identity){
        .key = m->secret.key, .purpose = ZT_PURPOSE_RANKS, .rank = m->rank, .size = m->size, .makes_job = m->rank == 0
    };
    t->places = zt_calloc((size_t)m->size, sizeof *t->places);
    t->session = zt_calloc((size_t)m->size, sizeof *t->session);
    for (int r = 0; r < m->size; r++)
        fds[r] = -1;
    bool ok = m->rank == 0 ? host(t, err) : join(t, err);
    for (int r = 0; !ok && r < m->size; r++)
        if (fds[r] >= 0)
            close(fds[r]);
    while (t->connection_count)
        remove_connection(t, 0, false);
    stop_listening(t);
    zt_mac_forget(t->session, (size_t)m->size * sizeof *t->session);
    free(t->session);
    free(t->places);
    free(t);
    return ok;
}
