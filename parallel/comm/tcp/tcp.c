/* Communicator of processes over TCP: ranks meet at an address (rendezvous.h) and exchange frames (link.h), on one host
 * and on several. It needs neither MPI nor a launcher of its own.
 *
 * A family is the world and all communicators split from it. They share the connections, and one failure ends all of
 * them. Collectives run as rounds (rounds.h), so their sums have the bits of the other communicators. */
#include "parallel/comm/tcp/link.h"
#include "parallel/comm/tcp/rendezvous.h"

#include "base/arena.h"
#include "parallel/comm/comm.h"
#include "parallel/comm/rounds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 1000 }; /* a frame or a closed connection ends the wait earlier */

struct family {
    struct zt_links *links;
    int members; /* communicators of this process */
    int next_context;
    struct zt_transfer_queue queue;
};

struct tcp_comm {
    struct zt_comm base;
    struct family *family;
    struct zt_part part;
    int *unreceived; /* by rank: messages sent to it that it has not received */
    const void **given;
    struct zt_frame **frames; /* by rank, of the current round */
};

static const struct zt_comm_api tcp_api;

static struct tcp_comm *down(struct zt_comm *c) {
    assert(c->api == &tcp_api);
    return (struct tcp_comm *)c;
}

/* Whether this rank has found a stopped rank. It then reports that rank to all, and all waiting ranks fail. */
static bool is_missed(const struct zt_comm *c, struct zt_links *l, struct zt_err *err) {
    const struct zt_missed *missed = zt_comm_missed(c->status, err);
    if (missed)
        zt_links_fail(l, missed->rank, "stopped");
    return missed;
}

/* Sends and receives frames for at most `ms`. After a failure no transfer uses its buffer any more. */
static bool move(struct zt_comm *c, int ms, struct zt_err *err) {
    struct family *f = down(c)->family;
    if (zt_links_move(f->links, ms, err) && !is_missed(c, f->links, err))
        return true;
    f->queue.first = NULL;
    return false;
}

static bool is_failed(struct family *f, struct zt_err *err) {
    bool failed = zt_links_failed(f->links, err);
    if (failed)
        f->queue.first = NULL;
    return failed;
}

/* ---- rounds ---- */

static struct zt_rounds rounds_of(const struct zt_transfer *t) {
    struct zt_rounds op = zt_rounds_of(t);
    op.room = zt_rounds_room(op.size);
    return op;
}

/* Sends a frame to every peer, an empty one where it has no bytes: a round ends when every peer has begun it. */
static void give(struct tcp_comm *c, const struct zt_rounds *op, int64_t round) {
    for (int i = 1; i < op->size; i++) {
        int to = (op->rank + i) % op->size;
        size_t bytes = op->kind->bytes(op, round, op->rank, to);
        zt_links_send(c->family->links, c->part.world[to], ZT_FRAME_ROUND, c->part.context,
                      bytes ? op->kind->give(op, round, to) : NULL, bytes);
    }
}

static bool have_all(struct tcp_comm *c, const struct zt_rounds *op) {
    for (int r = 0; r < op->size; r++) {
        if (r == op->rank)
            continue;
        c->frames[r] = zt_links_find(c->family->links, c->part.world[r], ZT_FRAME_ROUND, c->part.context);
        if (!c->frames[r])
            return false;
        c->given[r] = c->frames[r]->data;
    }
    return true;
}

static bool take(struct tcp_comm *c, const struct zt_rounds *op, int64_t round, struct zt_err *err) {
    bool ok = true;
    for (int r = 0; r < op->size && ok; r++)
        if (r != op->rank && c->frames[r]->head.bytes != op->kind->bytes(op, round, r, op->rank))
            ok = zt_fail(err, ZT_EXIT_RUN, "%s: rank %d gave %zu bytes, rank %d wants %zu", op->kind->name,
                         c->part.world[r], (size_t)c->frames[r]->head.bytes, c->part.world[op->rank],
                         op->kind->bytes(op, round, r, op->rank));
    if (ok)
        op->kind->take(op, round, c->given);
    for (int r = 0; r < op->size; r++)
        if (r != op->rank)
            zt_links_drop(c->family->links, c->part.world[r], c->frames[r]);
    return ok;
}

enum phase { TO_GIVE, TO_TAKE };

/* Advances the transfers as far as the received frames allow. */
static bool advance(struct family *f, struct zt_err *err) {
    while (f->queue.first) {
        struct zt_transfer *t = f->queue.first;
        struct tcp_comm *c = down(t->row.comm);
        struct zt_rounds op = rounds_of(t);
        if (t->row.phase == TO_GIVE)
            give(c, &op, t->row.round);
        t->row.phase = TO_TAKE;
        if (!have_all(c, &op))
            return true;
        if (!take(c, &op, t->row.round, err)) {
            f->queue.first = NULL;
            return false;
        }
        t->row.phase = TO_GIVE;
        if (++t->row.round < t->row.rounds)
            continue;
        f->queue.first = t->row.next;
        t->done = true;
    }
    return true;
}

/* Frames received before a failure count: a transfer that they complete succeeds. */
static bool progress(struct zt_comm *c, int ms, struct zt_err *err) {
    struct family *f = down(c)->family;
    struct zt_err failed = { 0 };
    zt_links_move(f->links, ms, &failed);
    if (!advance(f, err))
        return false;
    if (!f->queue.first || !(is_failed(f, err) || is_missed(c, f->links, err)))
        return true;
    f->queue.first = NULL;
    return false;
}

static bool tcp_poll(struct zt_comm *c, struct zt_err *err) {
    return down(c)->family->queue.first ? progress(c, 0, err) : move(c, 0, err);
}

static bool tcp_start(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct tcp_comm *c = down(base);
    if (is_failed(c->family, err))
        return false;
    zt_rounds_prepare(t, base);
    struct zt_rounds op = rounds_of(t);
    t->row.rounds = op.kind->count(&op);
    zt_transfer_append(&c->family->queue, t);
    return tcp_poll(base, err);
}

static bool tcp_wait(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct family *f = down(base)->family;
    const char *before = zt_rank_status_enter(base->status, t->row.kind->name);
    bool ok = t->done || tcp_poll(base, err); /* send and recv may have received the awaited frame */
    while (ok && !t->done) {
        ok = f->queue.first || zt_fail(err, ZT_EXIT_RUN, "wait: an earlier failure ended this transfer");
        ok = ok && progress(base, WAIT_MS, err);
    }
    if (ok) /* else the status names the failed call */
        zt_rank_status_leave(base->status, before);
    return ok;
}

/* ---- messages ---- */

/* Whether fewer than ZT_COMM_BUFFERED messages to `to` are without a confirmation of receipt. */
static bool has_room(struct tcp_comm *c, int to) {
    struct zt_links *l = c->family->links;
    struct zt_frame *taken;
    while ((taken = zt_links_find(l, c->part.world[to], ZT_FRAME_TAKEN, c->part.context))) {
        c->unreceived[to]--;
        zt_links_drop(l, c->part.world[to], taken);
    }
    return c->unreceived[to] < ZT_COMM_BUFFERED;
}

static bool tcp_send(struct zt_comm *base, const void *data, size_t bytes, int to, struct zt_err *err) {
    struct tcp_comm *c = down(base);
    if (!zt_comm_check_peer(base, "send", to, err) || !move(base, 0, err))
        return false;
    const char *before = zt_rank_status_enter(base->status, "send");
    while (!has_room(c, to))
        if (!move(base, WAIT_MS, err))
            return false;
    c->unreceived[to]++;
    zt_links_send(c->family->links, c->part.world[to], ZT_FRAME_MESSAGE, c->part.context, data, bytes);
    zt_rank_status_leave(base->status, before);
    return true;
}

static bool other_size(const struct tcp_comm *c, int from, size_t sent, size_t wanted, struct zt_err *err) {
    return zt_fail(err, ZT_EXIT_RUN, "rank %d sent %zu bytes, rank %d wants %zu bytes", c->part.world[from], sent,
                   c->part.world[c->base.rank], wanted);
}

/* The next message of that rank; NULL: failed. A message of another size fails at once, before all of it has come. */
static struct zt_frame *await_message(struct tcp_comm *c, int from, size_t bytes, struct zt_err *err) {
    struct zt_links *l = c->family->links;
    const int peer = c->part.world[from];
    struct zt_frame *f;
    size_t coming;
    while (!(f = zt_links_find(l, peer, ZT_FRAME_MESSAGE, c->part.context))) {
        if (zt_links_coming(l, peer, ZT_FRAME_MESSAGE, c->part.context, &coming) && coming != bytes) {
            other_size(c, from, coming, bytes, err);
            return NULL;
        }
        if (!move(&c->base, WAIT_MS, err))
            return NULL;
    }
    return f->head.bytes == bytes || other_size(c, from, (size_t)f->head.bytes, bytes, err) ? f : NULL;
}

static bool tcp_recv(struct zt_comm *base, void *data, size_t bytes, int from, struct zt_err *err) {
    struct tcp_comm *c = down(base);
    struct zt_links *l = c->family->links;
    if (!zt_comm_check_peer(base, "recv", from, err) || is_failed(c->family, err))
        return false;
    const char *before = zt_rank_status_enter(base->status, "recv");
    struct zt_frame *f = await_message(c, from, bytes, err);
    if (!f)
        return false;
    if (bytes)
        memcpy(data, f->data, bytes);
    zt_links_drop(l, c->part.world[from], f);
    zt_links_send(l, c->part.world[from], ZT_FRAME_TAKEN, c->part.context, NULL, 0);
    zt_rank_status_leave(base->status, before);
    return true;
}

/* ---- creation and destruction ---- */

/* Takes ownership of part.world. */
static struct zt_comm *comm_create(struct family *f, struct zt_part part) {
    struct tcp_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &tcp_api, .rank = part.rank, .size = part.size };
    c->family = f;
    c->part = part;
    c->unreceived = zt_calloc((size_t)part.size, sizeof *c->unreceived);
    c->given = zt_calloc((size_t)part.size, sizeof *c->given);
    c->frames = zt_calloc((size_t)part.size, sizeof *c->frames);
    f->members++;
    return &c->base;
}

static struct zt_comm *tcp_split(struct zt_comm *base, int color, struct zt_err *err) {
    struct tcp_comm *c = down(base);
    struct zt_part part;
    return zt_part_split(base, c->part.world, color, &c->family->next_context, &part, err)
               ? comm_create(c->family, part)
               : NULL;
}

static void tcp_abort(struct zt_comm *base, const char *why) {
    const struct tcp_comm *c = down(base);
    struct zt_err first = { 0 };
    c->family->queue.first = NULL; /* no transfer uses its buffer any more */
    if (zt_links_move(c->family->links, 0, &first))
        zt_links_fail(c->family->links, c->part.world[base->rank], why);
}

/* Messages arrive even after their sender destroyed its communicator: connections live as long as the family. */
static void tcp_destroy(struct zt_comm *base) {
    if (!base)
        return;
    struct tcp_comm *c = down(base);
    struct family *f = c->family;
    struct zt_err failed = { 0 };
    bool last = --f->members == 0;
    if (last) {
        zt_links_destroy(f->links, zt_rounds_barrier(base, &failed));
        free(f);
    }
    free(c->unreceived);
    free(c->given);
    free(c->frames);
    free(c->part.world);
    free(c);
}

static const struct zt_comm_api tcp_api = {
    .name = "tcp",
    .reduce_scatter = zt_comm_reduce_scatter,
    .all_gather = zt_comm_all_gather,
    .start = tcp_start,
    .poll = tcp_poll,
    .wait = tcp_wait,
    .share = zt_comm_share_nothing,
    .unshare = zt_comm_unshare_nothing,
    .broadcast = zt_rounds_broadcast,
    .sum = zt_rounds_sum,
    .barrier = zt_rounds_barrier,
    .send = tcp_send,
    .recv = tcp_recv,
    .split = tcp_split,
    .abort = tcp_abort,
    .destroy = tcp_destroy,
};

struct zt_comm *zt_comm_tcp_create(const struct zt_meeting *m, struct zt_err *err) {
    int *fds = zt_calloc((size_t)m->size, sizeof *fds);
    if (!zt_tcp_meet(m, fds, err)) {
        free(fds);
        return NULL;
    }
    struct family *f = zt_calloc(1, sizeof *f);
    f->links = zt_links_create(fds, m->rank, m->size);
    f->next_context = 1;
    free(fds);
    return comm_create(f, zt_part_whole(m->rank, m->size));
}
