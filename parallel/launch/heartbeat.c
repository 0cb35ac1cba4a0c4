#include "parallel/launch/heartbeat.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/show.h"
#include "base/thread.h"
#include "parallel/comm/addresses.h"
#include "parallel/comm/mac.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES = 8, GOODBYES = 3, ONCE = 1000 };
static const double beat_s = 1, stood_still_s = 3, silent_s = 10, patience_s = 5;

/* The message by which a rank introduces itself. All ranks run one program and share an endianness. It consists of
 * whole words. */
struct card {
    unsigned char key[ZT_MAC]; /* of datagrams to it */
    char host[64];
    struct in6_addr at[ADDRESSES];
    int32_t count;
    uint16_t port, unused; /* 0: it hears nothing */
};

/* `number` rises, so that a datagram that was recorded is none when it is sent again. */
struct beat {
    int32_t rank, leaves;
    uint64_t number;
    unsigned char mac[ZT_MAC];
};

struct zt_heartbeat {
    struct zt_rank_status *status;
    int rank, fd, wake; /* wake: an eventfd that ends the thread */
    bool six;           /* the socket is IPv6's, and both kinds'; else IPv4's */
    struct card own, next;
    uint64_t sent, taken; /* the highest number of a datagram */
    struct zt_missed before;
    double heard;        /* when the one before was; 0: never */
    bool left;           /* it said goodbye */
    double missed_since; /* 0: it is not missed */
    pthread_t thread;
};

/* ---- datagrams ---- */

static void send_to(const struct zt_heartbeat *p, const struct in6_addr *to, const struct beat *b) {
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = *to, .sin6_port = htons(p->next.port) };
    struct sockaddr_in old = { .sin_family = AF_INET, .sin_port = htons(p->next.port) };
    memcpy(&old.sin_addr, &to->s6_addr[12], sizeof old.sin_addr);
    if (p->six || IN6_IS_ADDR_V4MAPPED(to)) /* one that is lost is followed by another */
        sendto(p->fd, b, sizeof *b, MSG_DONTWAIT | MSG_NOSIGNAL, p->six ? (void *)&at : (void *)&old,
               p->six ? sizeof at : sizeof old);
}

static void sign(unsigned char to[ZT_MAC], const struct card *receiver, const struct beat *b) {
    zt_mac(to, receiver->key, "heartbeat", &(struct zt_mac_part){ b, offsetof(struct beat, mac) }, 1);
}

/* On all ways to the next rank: it does not say which of them work. */
static void tell(struct zt_heartbeat *p, bool leaves) {
    struct beat b = { .rank = p->rank, .leaves = leaves, .number = ++p->sent };
    sign(b.mac, &p->next, &b);
    for (int i = 0; i < p->next.count && p->next.port; i++)
        send_to(p, &p->next.at[i], &b);
}

static bool is_beat(const struct zt_heartbeat *p, const struct beat *b) {
    unsigned char wanted[ZT_MAC];
    if (b->rank != p->before.rank || b->number <= p->taken)
        return false;
    sign(wanted, &p->own, b);
    return zt_mac_equal(wanted, b->mac, ZT_MAC);
}

/* At most as many as a flood leaves time for others. */
static void hear(struct zt_heartbeat *p, double now) {
    struct beat b;
    ssize_t n;
    for (int i = 0; i < ONCE && (n = recv(p->fd, &b, sizeof b, MSG_DONTWAIT | MSG_TRUNC)) >= 0; i++) {
        if (n != (ssize_t)sizeof b || !is_beat(p, &b))
            continue;
        p->taken = b.number;
        p->heard = now;
        p->left |= b.leaves != 0;
    }
}

/* ---- the thread ---- */

/* Ends the process. Waiting calls end with the same error by themselves, but the rank may be in none of them. */
static void end_process(const struct zt_heartbeat *p) {
    struct zt_err err = { 0 };
    zt_comm_missed(p->status, &err);
    snprintf(err.place, sizeof err.place, "%s", p->status->place);
    zt_show_line_begin(stderr);
    zt_err_print(&err, stderr);
    _exit(ZT_EXIT_RANK);
}

static void look(struct zt_heartbeat *p, double now) {
    if (p->missed_since > 0 && now - p->missed_since > patience_s)
        end_process(p);
    if (p->missed_since > 0 || p->heard == 0 || p->left || now - p->heard < silent_s)
        return;
    p->missed_since = now;
    atomic_store(&p->status->missed, &p->before);
}

static void *serve(void *arg) {
    struct zt_heartbeat *p = arg;
    double told = 0, looked = zt_now();
    for (double now = looked;; now = zt_now()) {
        if (now - looked > stood_still_s && p->heard > 0)
            p->heard = now;
        looked = now;
        hear(p, now);
        look(p, now);
        if (now - told >= beat_s) {
            tell(p, false);
            told = now;
        }
        struct pollfd wait[2] = { { .fd = p->wake, .events = POLLIN }, { .fd = p->fd, .events = POLLIN } };
        poll(wait, 2, (int)((told + beat_s - now) * 1e3) + 1);
        if (wait[0].revents)
            return NULL;
    }
}

/* ---- the outside ---- */

/* A host's ranks also reach each other where it has no network. */
static void add_loopback(struct card *to) {
    if (to->count == ADDRESSES)
        to->count--;
    to->at[to->count++] = zt_address_of_ipv4((struct in_addr){ .s_addr = htonl(INADDR_LOOPBACK) });
}

static bool exchange_cards(struct zt_heartbeat *p, struct zt_comm *world, struct zt_err *err) {
    struct card *cards = zt_calloc((size_t)world->size, sizeof *cards);
    const int next = (p->rank + 1) % world->size;
    cards[p->rank] = p->own;
    bool ok = zt_comm_exchange(world, cards, sizeof *cards, err);
    p->next = cards[next];
    memcpy(p->before.host, cards[p->before.rank].host, sizeof p->before.host);
    free(cards);
    if (ok && memcmp(p->next.host, p->own.host, sizeof p->own.host) == 0)
        add_loopback(&p->next);
    return ok;
}

static void finish(struct zt_heartbeat *p) {
    if (p->fd >= 0)
        close(p->fd);
    if (p->wake >= 0)
        close(p->wake);
    free(p);
}

bool zt_heartbeat_start(struct zt_heartbeat **to, struct zt_comm *world, struct zt_rank_status *status,
                        struct zt_err *err) {
    struct zt_heartbeat *p = zt_calloc(1, sizeof *p);
    *p = (struct zt_heartbeat){ .status = status,
                                .rank = world->rank,
                                .before.rank = (world->rank + world->size - 1) % world->size };
    *to = NULL;
    p->wake = eventfd(0, EFD_CLOEXEC);
    p->own.count = zt_addresses(p->own.at, ADDRESSES, NULL);
    gethostname(p->own.host, sizeof p->own.host - 1);
    p->fd = zt_bind_datagrams(&p->own.port, &p->six); /* without one it neither says nor hears anything */
    bool open = p->wake >= 0 && zt_random(p->own.key, sizeof p->own.key);
    int why = errno;
    if (!exchange_cards(p, world, err)) {
        finish(p);
        return false;
    }
    if (open && (why = zt_thread_start(&p->thread, serve, p)) == 0) {
        *to = p;
        return true;
    }
    finish(p);
    return zt_fail(err, ZT_EXIT_RUN, "rank %d: cannot start the heartbeat: %s", world->rank, strerror(why));
}

void zt_heartbeat_stop(struct zt_heartbeat *p) {
    uint64_t one = 1;
    if (!p || write(p->wake, &one, sizeof one) != sizeof one)
        return;
    pthread_join(p->thread, NULL);
    for (int i = 0; i < GOODBYES; i++)
        tell(p, true);
    atomic_store(&p->status->missed, NULL);
    finish(p);
}
