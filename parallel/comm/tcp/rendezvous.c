#include "parallel/comm/tcp/rendezvous.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "parallel/launch/addresses.h"
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

enum { GUESTS = 128, STRANGERS = 4, AGAIN_MS = 100, DIAL_MS = 5000 };
#define GUEST_SECONDS 1.0

/* Where a rank listens, as rank 0 sees it: an address of IPv6, or one of IPv4 in its form. */
struct place {
    struct in6_addr at;
    uint16_t port, unused[3];
};

/* A connection that is not through the handshake. */
struct guest {
    int fd;
    double since;
    struct zt_visit visit;
};

/* One that said to be a rank and had another secret. */
struct stranger {
    int rank;
    struct in6_addr at;
};

struct table {
    const struct zt_meeting *m;
    int listener[ZT_MEETING_ADDRESSES], listeners;
    uint16_t port;
    double end;
    struct zt_door door;
    unsigned char (*session)[ZT_MAC]; /* by rank; rank 0's, of the others [0] alone is used */
    struct place *places;
    int *fds;
    struct guest guests[GUESTS];
    int guest_count;
    struct stranger strangers[STRANGERS];
    int stranger_count;
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

/* ---- guests ---- */

static void remove_guest(struct table *t, int i, bool keep_open) {
    if (!keep_open)
        close(t->guests[i].fd);
    t->guests[i] = t->guests[--t->guest_count];
}

static int least_guest(const struct table *t) {
    int least = 0;
    for (int i = 1; i < t->guest_count; i++) {
        const struct guest *a = &t->guests[i], *b = &t->guests[least];
        const size_t said = zt_visit_said(&a->visit), before = zt_visit_said(&b->visit);
        if (said < before || (said == before && a->since < b->since))
            least = i;
    }
    return least;
}

/* Small records on a new line: the system has room for them, or the line is of no use. */
static bool send_now(int fd, const void *record, size_t bytes) {
    return send(fd, record, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

static void note_stranger(struct table *t, const struct guest *g) {
    struct stranger s = { .rank = g->visit.hello.from, .at = zt_address_there(g->fd) };
    for (int i = 0; i < t->stranger_count; i++)
        if (memcmp(&t->strangers[i].at, &s.at, sizeof s.at) == 0 && t->strangers[i].rank == s.rank)
            return;
    if (t->stranger_count < STRANGERS)
        t->strangers[t->stranger_count++] = s;
}

static enum zt_handshake_result judge(const struct table *t, const struct zt_visit *v) {
    const struct zt_hello *h = &v->hello;
    if (v->state == ZT_VISIT_UNPROVEN)
        return ZT_OTHER_SECRET;
    if (h->size != t->m->size)
        return ZT_OTHER_SIZE;
    if (h->from <= t->m->rank || h->from >= t->m->size)
        return ZT_NOT_WANTED;
    return t->fds[h->from] >= 0 ? ZT_TAKEN : ZT_WELCOME;
}

/* Tells a guest that has shown its proof what becomes of it. True: it is a rank, which has its line now. */
static bool receive(struct table *t, const struct guest *g) {
    const int rank = g->visit.hello.from;
    const enum zt_handshake_result verdict = judge(t, &g->visit);
    const struct zt_welcome w = zt_visit_answer(&g->visit, &t->door, verdict);
    if (verdict == ZT_OTHER_SECRET)
        note_stranger(t, g);
    if (!send_now(g->fd, &w, sizeof w) || verdict != ZT_WELCOME)
        return false;
    t->fds[rank] = g->fd;
    t->places[rank] = (struct place){ .at = zt_address_there(g->fd), .port = g->visit.hello.port };
    zt_handshake_session(t->session[rank], t->door.key, &g->visit.hello, &g->visit.challenge);
    return true;
}

/* What follows from the bytes that came of guest i. False: it is no guest any more. */
static bool step_guest(struct table *t, int i, enum zt_visit_state before) {
    struct guest *g = &t->guests[i];
    if (g->visit.state == ZT_VISIT_PROVEN || g->visit.state == ZT_VISIT_UNPROVEN) {
        remove_guest(t, i, receive(t, g));
        return false;
    }
    bool begins = before == ZT_VISIT_HELLO && g->visit.state == ZT_VISIT_PROOF;
    if (g->visit.state != ZT_VISIT_IMPOSSIBLE &&
        (!begins || send_now(g->fd, &g->visit.challenge, sizeof g->visit.challenge)))
        return true;
    remove_guest(t, i, false);
    return false;
}

/* Reads what has come of guest i, at most what is missing of its record. False: it is no guest any more. */
static bool hear(struct table *t, int i) {
    unsigned char bytes[sizeof(struct zt_hello)];
    struct guest *g = &t->guests[i];
    const enum zt_visit_state before = g->visit.state;
    ssize_t n = recv(g->fd, bytes, zt_visit_wants(&g->visit), MSG_DONTWAIT);
    bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);
    if ((n > 0 || waits) && zt_now() - g->since < GUEST_SECONDS) {
        if (n > 0)
            zt_visit_take(&g->visit, &t->door, bytes, (size_t)n);
        return step_guest(t, i, waits ? g->visit.state : before);
    }
    remove_guest(t, i, false);
    return false;
}

/* All that wait at a listener, up to as many as there are chairs. */
static void take_guests(struct table *t, int listener) {
    for (int taken = 0; taken < GUESTS; taken++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (t->guest_count == GUESTS)
            remove_guest(t, least_guest(t), false);
        struct guest *g = &t->guests[t->guest_count++];
        *g = (struct guest){ .fd = fd, .since = zt_now() };
        if (zt_random(g->visit.challenge.nonce, sizeof g->visit.challenge.nonce))
            hear(t, t->guest_count - 1);
        else
            remove_guest(t, t->guest_count - 1, false);
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
        struct pollfd wait[GUESTS + ZT_MEETING_ADDRESSES];
        const int guests = t->guest_count;
        for (int i = 0; i < guests; i++)
            wait[i] = (struct pollfd){ .fd = t->guests[i].fd, .events = POLLIN };
        for (int i = 0; i < t->listeners; i++)
            wait[guests + i] = (struct pollfd){ .fd = t->listener[i], .events = POLLIN };
        poll(wait, (nfds_t)(guests + t->listeners), AGAIN_MS);
        for (int i = 0; i < t->guest_count;)
            i += hear(t, i);
        for (int i = 0; i < t->listeners; i++)
            if (wait[guests + i].revents)
                take_guests(t, t->listener[i]);
    }
    return missing(t, t->m->rank + 1) == t->m->size;
}

/* ---- errors ---- */

static void list_strangers(const struct table *t, struct zt_text *to) {
    char at[INET6_ADDRSTRLEN];
    for (int i = 0; i < t->stranger_count; i++)
        zt_text_add(to, "%s rank %d from %s", i ? "," : "; with another secret came", t->strangers[i].rank,
                    zt_address_text(&t->strangers[i].at, at));
}

static bool some_missing(const struct table *t, struct zt_err *err) {
    struct zt_text list = { 0 }, strangers = { 0 };
    int absent = 0;
    for (int r = t->m->rank + 1; r < t->m->size; r++)
        if (t->fds[r] < 0 && absent++ < 8)
            zt_text_add(&list, "%s%d", absent > 1 ? ", " : "", r);
    zt_text_add(&list, "%s", absent > 8 ? ", ..." : "");
    list_strangers(t, &strangers);
    zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%s: %d of WORLD_SIZE=%d ranks came to MASTER_PORT=%d within %d s%s",
            list.at, t->m->size - absent, t->m->size, t->m->port, t->m->seconds, strangers.at ? strangers.at : "");
    zt_text_finish(&list);
    zt_text_finish(&strangers);
    if (t->stranger_count)
        return zt_secret_hint(err);
    return zt_hint(err,
                   "is every rank started, with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and the port open?");
}

/* Why rank `to` did not let this one in. */
static bool refused(const struct table *t, enum zt_handshake_result verdict, int to, const struct zt_welcome *w,
                    struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    if (verdict == ZT_OTHER_SIZE)
        return zt_fail(err, ZT_EXIT_CONFIG, "WORLD_SIZE=%d, but rank %d at MASTER_ADDR=%s has WORLD_SIZE=%d", m->size,
                       to, m->address, w->size);
    if (verdict == ZT_TAKEN)
        return zt_fail(err, ZT_EXIT_CONFIG, "RANK=%d: another process has come to MASTER_ADDR=%s with it", m->rank,
                       m->address);
    if (verdict == ZT_NOT_WANTED)
        return zt_fail(err, ZT_EXIT_CONFIG, "RANK=%d: rank %d at MASTER_ADDR=%s waits for no such rank", m->rank, to,
                       m->address);
    if (verdict == ZT_NOT_A_LISTENER)
        return zt_fail(err, ZT_EXIT_RUN, "MASTER_ADDR=%s, MASTER_PORT=%d: what answers there is no rank 0 of ztrain",
                       m->address, m->port);
    zt_fail(err, ZT_EXIT_CONFIG, "RANK=%d: rank %d at MASTER_ADDR=%s, MASTER_PORT=%d %s", m->rank, to, m->address,
            m->port, verdict == ZT_OTHER_SECRET ? "has another secret" : "does not prove that it knows the secret");
    return zt_secret_hint(err);
}

/* ---- rank 0 ---- */

static bool cannot_listen(const struct zt_meeting *m, int why, struct zt_err *err) {
    zt_fail(err, why == EADDRNOTAVAIL ? ZT_EXIT_CONFIG : ZT_EXIT_RUN,
            "MASTER_ADDR=%s, MASTER_PORT=%d: rank 0 cannot listen there: %s", m->address, m->port, strerror(why));
    const char *kept = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (why == EADDRNOTAVAIL)
        return zt_hint(err, "set MASTER_ADDR to an address of the host of rank 0");
    return zt_hint(err, "%s",
                   kept && strcmp(kept, "True") == 0
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
    if (!zt_random(t->door.job, sizeof t->door.job))
        return zt_fail(err, ZT_EXIT_RUN, "the system gives no random numbers: %s", strerror(errno));
    if (!open_host(t, err))
        return false;
    if (!wait_for_all(t))
        return some_missing(t, err);
    for (int r = 1; r < m->size; r++) {
        zt_mac(mac, t->session[r], "places", &(struct zt_mac_part){ t->places, bytes }, 1);
        if (!zt_strided_copy_all(t->fds[r], t->places, bytes, true, t->end) ||
            !zt_strided_copy_all(t->fds[r], mac, sizeof mac, true, t->end))
            return zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%d: it left before all had met", r);
    }
    return true;
}

/* ---- the others ---- */

static int left_ms(const struct table *t, int most) {
    const double left = (t->end - zt_now()) * 1e3;
    return left <= 0 ? 0 : left < most ? (int)left + 1 : most;
}

/* One attempt at rank `to`. Rank 0's challenge says which job it is. */
static enum zt_handshake_result knock(struct table *t, int to, const struct zt_sockaddr *at, struct zt_welcome *w) {
    struct zt_hello hello = {
        .purpose = ZT_PURPOSE_RANKS, .from = t->m->rank, .to = to, .size = t->m->size, .port = t->port
    };
    struct zt_challenge challenge;
    int fd = zt_connect_at((const struct sockaddr *)&at->at, at->bytes, left_ms(t, to ? DIAL_MS : 2000));
    if (fd < 0)
        return ZT_GONE;
    if (to == 0) { /* the others reach this rank where rank 0 does */
        const struct in6_addr here = zt_address_here(fd);
        stop_listening(t);
        t->port = 0;
        if (!listen_at(t, &here)) {
            close(fd);
            return ZT_GONE;
        }
        hello.port = t->port;
    }
    memcpy(hello.job, t->door.job, sizeof hello.job);
    const enum zt_handshake_result verdict = zt_handshake_connect(fd, t->door.key, &hello, &challenge, w, t->end);
    if (verdict == ZT_WELCOME) {
        t->fds[to] = fd;
        memcpy(t->door.job, challenge.job, sizeof t->door.job);
        zt_handshake_session(t->session[to], t->door.key, &hello, &challenge);
    } else {
        close(fd);
    }
    return verdict;
}

static enum zt_handshake_result knock_host(struct table *t, struct zt_welcome *w, struct zt_err *err) {
    struct in6_addr at[ZT_MEETING_ADDRESSES];
    enum zt_handshake_result verdict = ZT_GONE;
    int count = zt_meeting_addresses(t->m, at, err);
    for (int i = 0; i < count && verdict == ZT_GONE && left_ms(t, 1); i++) {
        struct zt_sockaddr to = zt_sockaddr_of(&at[i], (uint16_t)t->m->port);
        verdict = knock(t, 0, &to, w);
    }
    return verdict;
}

/* Rank 0 may start later than this one; one that listens may have had other guests to hear. */
static bool reach_host(struct table *t, struct zt_err *err) {
    const struct zt_meeting *m = t->m;
    for (;;) {
        struct zt_welcome w;
        const enum zt_handshake_result verdict = knock_host(t, &w, err);
        if (err->count || verdict == ZT_WELCOME)
            return !err->count;
        if (verdict != ZT_GONE)
            return refused(t, verdict, 0, &w, err);
        if (!left_ms(t, 1))
            break;
        nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * 1000000L }, NULL);
    }
    zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "0: nobody answers at MASTER_ADDR=%s, MASTER_PORT=%d within %d s",
            m->address, m->port, m->seconds);
    return zt_hint(err, "rank 0 listens there: is it started, and the port open?");
}

static bool hear_places(struct table *t, struct zt_err *err) {
    const size_t bytes = (size_t)t->m->size * sizeof *t->places;
    unsigned char mac[ZT_MAC], wanted[ZT_MAC];
    if (!zt_strided_copy_all(t->fds[0], t->places, bytes, false, t->end) ||
        !zt_strided_copy_all(t->fds[0], mac, sizeof mac, false, t->end))
        return zt_fail(err, ZT_EXIT_RANK, "rank 0: not all ranks came, or it has ended");
    zt_mac(wanted, t->session[0], "places", &(struct zt_mac_part){ t->places, bytes }, 1);
    return zt_mac_equal(mac, wanted, sizeof mac) ||
           zt_fail(err, ZT_EXIT_RUN, "rank 0 at MASTER_ADDR=%s: its list of ranks was changed on the way",
                   t->m->address);
}

/* Lower ranks listen already: rank 0 has told of them, so all have come. */
static bool reach_rank(struct table *t, int to, struct zt_err *err) {
    const struct zt_sockaddr at = zt_sockaddr_of(&t->places[to].at, t->places[to].port);
    const double end = zt_now() + DIAL_MS * 1e-3;
    struct zt_welcome w;
    enum zt_handshake_result verdict;
    while ((verdict = knock(t, to, &at, &w)) == ZT_GONE && zt_now() < end && left_ms(t, 1))
        nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * 1000000L }, NULL);
    if (verdict == ZT_GONE)
        return zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%d: rank %d cannot reach it", to, t->m->rank);
    return verdict == ZT_WELCOME || refused(t, verdict, to, &w, err);
}

static bool visit(struct table *t, struct zt_err *err) {
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
    t->door = (struct zt_door){
        .key = m->secret.key, .purpose = ZT_PURPOSE_RANKS, .rank = m->rank, .size = m->size, .makes_job = m->rank == 0
    };
    t->places = zt_calloc((size_t)m->size, sizeof *t->places);
    t->session = zt_calloc((size_t)m->size, sizeof *t->session);
    for (int r = 0; r < m->size; r++)
        fds[r] = -1;
    bool ok = m->rank == 0 ? host(t, err) : visit(t, err);
    for (int r = 0; !ok && r < m->size; r++)
        if (fds[r] >= 0)
            close(fds[r]);
    while (t->guest_count)
        remove_guest(t, 0, false);
    stop_listening(t);
    zt_mac_forget(t->session, (size_t)m->size * sizeof *t->session);
    free(t->session);
    free(t->places);
    free(t);
    return ok;
}
