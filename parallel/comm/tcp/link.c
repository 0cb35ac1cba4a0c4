#include "parallel/comm/tcp/link.h"

#include "base/arena.h"
#include "base/clock.h"
#include "parallel/comm/comm.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A host that goes without a word answers neither a silent line's probes, one every PROBE_SECONDS, nor what is sent
 * again: the fifth time 6 s after the first. SETTLE_MS: a host takes all its ranks with it; those that are left wait so
 * long for the ends of their lines before they agree on who speaks. */
enum { PROBE_SECONDS = 2, PROBES = 3, SENT_AGAIN = 5, SETTLE_MS = 300, LAST_MS = 2000, WHY = 240, GROWTH = 8 };

/* Of a failure or a loss. */
struct news {
    int32_t rank;
    char why[WHY];
};

struct link {
    int fd;    /* -1: closed, or this rank's own */
    bool over; /* it said its last frame: the end of the line is no loss */
    bool lost;
    struct zt_frame_head head; /* of the frame that is being received */
    size_t have;               /* bytes of head and contents that have come */
    struct zt_frame *coming;   /* NULL: the head is not whole yet */
    size_t room;               /* for its contents */
    struct zt_frame *in, **in_end;
    struct zt_frame *out, **out_end;
    size_t sent; /* bytes of the first of `out`, its head counted */
};

struct zt_links {
    int rank, size;
    struct link *link;
    struct pollfd *wait;
    double looked; /* at the lines' state */
    enum { WELL, FAILED, LOST } state;
    int failed_rank;
    char why[WHY];
};

/* ---- what goes out ---- */

/* With room for the first `room` bytes of its contents. */
static struct zt_frame *frame_create(const struct zt_frame_head *head, size_t room) {
    struct zt_frame *f = NULL;
    if (room > SIZE_MAX / 2 || posix_memalign((void **)&f, _Alignof(struct zt_frame), sizeof *f + room) != 0)
        return NULL;
    f->next = NULL;
    f->head = *head;
    return f;
}

static void free_frames(struct zt_frame *f) {
    for (struct zt_frame *next; f; f = next) {
        next = f->next;
        free(f);
    }
}

static void queue(struct zt_links *l, int to, enum zt_frame_kind kind, uint32_t context, const void *data,
                  size_t bytes) {
    struct zt_frame_head head = { .context = context, .kind = (uint16_t)kind, .bytes = bytes };
    struct link *k = &l->link[to];
    if (k->fd < 0)
        return;
    struct zt_frame *f = frame_create(&head, bytes);
    if (!f) {
        fprintf(stderr, ZT_ERR_MARK "rank %d: no memory for a message of %zu bytes\n", l->rank, bytes);
        exit(ZT_EXIT_RUN); /* as zt_malloc does */
    }
    if (bytes)
        memcpy(f->data, data, bytes);
    *k->out_end = f;
    k->out_end = &f->next;
}

static void write_some(struct zt_links *l, int to) {
    struct link *k = &l->link[to];
    while (k->fd >= 0 && k->out) {
        struct zt_frame *f = k->out;
        size_t head = sizeof f->head, all = head + (size_t)f->head.bytes;
        const char *at = k->sent < head ? (const char *)&f->head + k->sent : f->data + (k->sent - head);
        ssize_t n = send(k->fd, at, k->sent < head ? head - k->sent : all - k->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT | (k->sent < head && f->head.bytes ? MSG_MORE : 0));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0) { /* received frames can still be read */
            free_frames(k->out);
            k->out = NULL;
            k->out_end = &k->out;
            k->sent = 0;
            return;
        }
        k->sent += (size_t)n;
        if (k->sent < all)
            continue;
        k->out = f->next;
        k->out_end = k->out ? k->out_end : &k->out;
        k->sent = 0;
        free(f);
    }
}

void zt_links_send(struct zt_links *l, int to, enum zt_frame_kind kind, uint32_t context, const void *data,
                   size_t bytes) {
    if (l->state != WELL)
        return;
    queue(l, to, kind, context, data, bytes);
    write_some(l, to);
}

/* ---- failures ---- */

/* Drops frames of which no byte was sent yet: they would delay the failure notification. */
static void tell_all(struct zt_links *l, enum zt_frame_kind kind, const void *data, size_t bytes) {
    for (int r = 0; r < l->size; r++) {
        struct link *k = &l->link[r];
        struct zt_frame **first = k->out && k->sent ? &k->out->next : &k->out;
        free_frames(*first);
        *first = NULL;
        k->out_end = first;
        queue(l, r, kind, 0, data, bytes);
        write_some(l, r);
    }
}

static void note_failure(struct zt_links *l, int rank, const char *why, size_t bytes) {
    struct news news = { .rank = rank };
    if (l->state != WELL)
        return;
    l->state = FAILED;
    l->failed_rank = rank;
    snprintf(l->why, sizeof l->why, "%.*s", (int)(bytes < WHY ? bytes : WHY), why);
    memcpy(news.why, l->why, strlen(l->why));
    tell_all(l, ZT_FRAME_FAILED, &news, offsetof(struct news, why) + strlen(l->why));
}

static void note_loss(struct zt_links *l, int rank) {
    struct news news = { .rank = rank };
    l->link[rank].lost = true;
    if (l->state != WELL)
        return;
    l->state = LOST;
    l->failed_rank = rank;
    tell_all(l, ZT_FRAME_LOST, &news, offsetof(struct news, why));
}

void zt_links_fail(struct zt_links *l, int rank, const char *why) {
    note_failure(l, rank, why, strlen(why));
}

static void line_ended(struct zt_links *l, int rank) {
    struct link *k = &l->link[rank];
    close(k->fd);
    k->fd = -1;
    free(k->coming);
    k->coming = NULL;
    free_frames(k->out);
    k->out = NULL;
    k->out_end = &k->out;
    if (!k->over)
        note_loss(l, rank);
}

static int speaker(const struct zt_links *l) {
    int r = 0;
    while (r < l->rank && l->link[r].lost)
        r++;
    return r;
}

bool zt_links_failed(const struct zt_links *l, struct zt_err *err) {
    if (l->state == WELL)
        return false;
    char before[24] = "";
    if (l->state == FAILED)
        return !zt_fail(err, ZT_EXIT_RANK, "rank %d: %s", l->failed_rank, l->why);
    if (speaker(l) != l->rank)
        snprintf(before, sizeof before, "rank %d: ", speaker(l));
    return !zt_fail(err, ZT_EXIT_RANK, "%s" ZT_LOST_RANK "%d: its process ended or its host is out of reach", before,
                    l->failed_rank);
}

/* ---- what comes in ---- */

bool zt_frame_check(const struct zt_frame_head *h) {
    switch (h->kind) {
    case ZT_FRAME_ROUND:
        return h->bytes <= ZT_FRAME_ROUND_MOST;
    case ZT_FRAME_MESSAGE:
        return h->bytes <= ZT_FRAME_MESSAGE_MOST;
    case ZT_FRAME_TAKEN:
    case ZT_FRAME_LEAVES:
        return h->bytes == 0;
    case ZT_FRAME_FAILED:
        return h->bytes >= offsetof(struct news, why) && h->bytes <= sizeof(struct news);
    case ZT_FRAME_LOST:
        return h->bytes == offsetof(struct news, why);
    default:
        return false;
    }
}

static void take_news(struct zt_links *l, const struct zt_frame *f) {
    struct news news = { .rank = -1 };
    memcpy(&news, f->data, (size_t)f->head.bytes);
    if (news.rank < 0 || news.rank >= l->size)
        return;
    if (f->head.kind == ZT_FRAME_FAILED) /* of this rank too, which stood still until the others gave it up */
        note_failure(l, news.rank, news.why, (size_t)f->head.bytes - offsetof(struct news, why));
    else if (f->head.kind == ZT_FRAME_LOST && news.rank != l->rank)
        note_loss(l, news.rank);
}

static void take_frame(struct zt_links *l, int from, struct zt_frame *f) {
    struct link *k = &l->link[from];
    if (f->head.kind >= ZT_FRAME_FAILED) { /* its last */
        k->over = true;
        take_news(l, f);
        free(f);
        return;
    }
    *k->in_end = f;
    k->in_end = &f->next;
}

/* The size in a head is not trusted: the buffer grows to GROWTH times the received bytes, which copies little. */
static bool make_room(struct link *k) {
    const size_t all = (size_t)k->head.bytes, have = k->have - sizeof k->head;
    size_t room = have ? GROWTH * have : ZT_FRAME_ROUND_MOST;
    room = room < all ? room : all;
    struct zt_frame *f = frame_create(&k->head, room);
    if (f && k->coming)
        memcpy(f->data, k->coming->data, have);
    free(k->coming);
    k->coming = f;
    k->room = room;
    return f != NULL;
}

/* Returns the number of bytes to read next. */
static size_t wanted(const struct link *k) {
    return k->coming ? sizeof k->head + k->room - k->have : sizeof k->head - k->have;
}

static void read_some(struct zt_links *l, int from) {
    struct link *k = &l->link[from];
    const size_t head = sizeof k->head;
    while (k->fd >= 0) {
        const size_t bytes = wanted(k);
        char *at = k->coming ? k->coming->data + (k->have - head) : (char *)&k->head + k->have;
        ssize_t n = bytes ? recv(k->fd, at, bytes, MSG_DONTWAIT) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0 || (n == 0 && bytes)) {
            line_ended(l, from);
            return;
        }
        k->have += (size_t)n;
        if (wanted(k))
            continue;
        const bool whole = k->coming && k->have == head + (size_t)k->head.bytes;
        if (!whole && !((k->coming || zt_frame_check(&k->head)) && make_room(k))) {
            line_ended(l, from);
            return;
        }
        if (!whole)
            continue;
        struct zt_frame *f = k->coming;
        k->coming = NULL;
        k->have = 0;
        take_frame(l, from, f);
    }
}

static void move_some(struct zt_links *l, int ms) {
    for (int r = 0; r < l->size; r++)
        l->wait[r] = (struct pollfd){ .fd = l->link[r].fd, .events = (short)(POLLIN | (l->link[r].out ? POLLOUT : 0)) };
    if (poll(l->wait, (nfds_t)l->size, ms) <= 0)
        return;
    for (int r = 0; r < l->size; r++) {
        if (l->wait[r].revents & POLLOUT)
            write_some(l, r);
        if (l->wait[r].revents & ~POLLOUT)
            read_some(l, r);
    }
}

static bool any_open(const struct zt_links *l) {
    for (int r = 0; r < l->size; r++)
        if (l->link[r].fd >= 0)
            return true;
    return false;
}

static void move_for(struct zt_links *l, int ms) {
    const double end = zt_now() + ms * 1e-3;
    for (double now = zt_now(); now < end && any_open(l); now = zt_now())
        move_some(l, (int)((end - now) * 1e3) + 1);
}

/* TCP_USER_TIMEOUT would also end the line to a rank that computes for long and reads nothing meanwhile. */
static void look_at_lines(struct zt_links *l) {
    const double now = zt_now();
    if (now - l->looked < 1)
        return;
    l->looked = now;
    for (int r = 0; r < l->size; r++) {
        struct tcp_info info;
        socklen_t size = sizeof info;
        if (l->link[r].fd >= 0 && getsockopt(l->link[r].fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
            info.tcpi_retransmits >= SENT_AGAIN)
            line_ended(l, r);
    }
}

bool zt_links_move(struct zt_links *l, int ms, struct zt_err *err) {
    const bool was_well = l->state == WELL;
    if (was_well) {
        move_some(l, ms);
        look_at_lines(l);
    }
    if (was_well && l->state == LOST)
        move_for(l, SETTLE_MS);
    return !zt_links_failed(l, err);
}

struct zt_frame *zt_links_find(const struct zt_links *l, int from, enum zt_frame_kind kind, uint32_t context) {
    struct zt_frame *f = l->link[from].in;
    while (f && (f->head.kind != kind || f->head.context != context))
        f = f->next;
    return f;
}

bool zt_links_coming(const struct zt_links *l, int from, enum zt_frame_kind kind, uint32_t context, size_t *bytes) {
    const struct link *k = &l->link[from];
    *bytes = (size_t)k->head.bytes;
    return k->coming && k->head.kind == kind && k->head.context == context;
}

void zt_links_drop(struct zt_links *l, int from, struct zt_frame *frame) {
    struct zt_frame **at = &l->link[from].in;
    while (*at != frame)
        at = &(*at)->next;
    *at = frame->next;
    if (!*at)
        l->link[from].in_end = at;
    free(frame);
}

/* ---- the whole ---- */

static void watch_host(int fd) {
    int yes = 1, seconds = PROBE_SECONDS, count = PROBES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

struct zt_links *zt_links_create(const int *fds, int rank, int size) {
    struct zt_links *l = zt_calloc(1, sizeof *l);
    l->rank = rank;
    l->size = size;
    l->link = zt_calloc((size_t)size, sizeof *l->link);
    l->wait = zt_calloc((size_t)size, sizeof *l->wait);
    for (int r = 0; r < size; r++) {
        struct link *k = &l->link[r];
        k->fd = fds[r];
        k->in_end = &k->in;
        k->out_end = &k->out;
        if (k->fd >= 0)
            watch_host(k->fd);
    }
    return l;
}

static bool any_unsent(const struct zt_links *l) {
    for (int r = 0; r < l->size; r++)
        if (l->link[r].out)
            return true;
    return false;
}

/* A socket closed with bytes unread takes back what the other side has not read: both read to the end first. */
void zt_links_destroy(struct zt_links *l, bool well) {
    if (!l)
        return;
    const double end = zt_now() + LAST_MS * 1e-3;
    for (int r = 0; well && r < l->size; r++)
        zt_links_send(l, r, ZT_FRAME_LEAVES, 0, NULL, 0);
    while (any_unsent(l) && zt_now() < end)
        move_some(l, 50);
    for (int r = 0; r < l->size; r++)
        if (l->link[r].fd >= 0)
            shutdown(l->link[r].fd, SHUT_WR);
    while (any_open(l) && zt_now() < end)
        move_some(l, 50);
    for (int r = 0; r < l->size; r++) {
        struct link *k = &l->link[r];
        if (k->fd >= 0)
            close(k->fd);
        free(k->coming);
        free_frames(k->in);
        free_frames(k->out);
    }
    free(l->link);
    free(l->wait);
    free(l);
}
