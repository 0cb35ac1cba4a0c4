/* Ranks as processes that meet at an address (comm_tcp_meet.h) and exchange frames (comm_tcp_link.h): no MPI, no
 * launcher of its own, one path for ranks of one host and of several.
 *
 * A family is the world and all communicators split off from it; they share the lines and fail together. Collectives
 * run as rounds (comm_rounds.h), so their sums are those of the other communicators. */
#include "parallel/comm_tcp_link.h"
#include "parallel/comm_tcp_meet.h"

#include "base/arena.h"
#include "parallel/comm.h"
#include "parallel/comm_rounds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUND = 1 << 20, /* bytes a rank sends, and receives, in one round */
    BUFFERED = 8,    /* messages of a pair, comm.h */
    WAIT_MS = 1000,  /* a frame or the end of a line ends it sooner */
};

struct family {
    struct zt_links *links;
    int members; /* communicators of this process */
    int next_context;
    struct zt_transfer *first, *last; /* started and not done, in order; only the first one moves */
};

struct tcp_comm {
    struct zt_comm base;
    struct family *family;
    int *world; /* by rank: its rank in the world */
    uint32_t context;
    int *underway; /* by rank: messages to it that it has not taken */
    const void **given;
    struct zt_frame **frames; /* by rank, of the present round */
};

static const struct zt_comm_api tcp_api;

static struct tcp_comm *down(struct zt_comm *c) {
    assert(c->api == &tcp_api);
    return (struct tcp_comm *)c;
}

/* From a failure on the buffers of all transfers are their owners' again. */
static bool move(struct family *f, int ms, struct zt_err *err) {
    if (zt_links_move(f->links, ms, err))
        return true;
    f->first = NULL;
    return false;
}

static bool is_failed(struct family *f, struct zt_err *err) {
    bool failed = zt_links_failed(f->links, err);
    if (failed)
        f->first = NULL;
    return failed;
}

/* ---- rounds ---- */

static struct zt_rounds rounds_of(const struct tcp_comm *c, const struct zt_transfer *t) {
    return (struct zt_rounds){ .kind = t->row.kind,
                               .rank = c->base.rank,
                               .size = c->base.size,
                               .data = t->data,
                               .bound = t->bound,
                               .width = t->bytes_per_element,
                               .bytes = t->row.bytes,
                               .root = t->row.root,
                               .room = (ROUND / (size_t)c->base.size + 63) / 64 * 64 };
}

/* Also where there are no bytes: a round ends only when every peer has begun it. */
static void give(struct tcp_comm *c, const struct zt_rounds *op, int64_t round) {
    for (int i = 1; i < op->size; i++) {
        int to = (op->rank + i) % op->size;
        size_t bytes = op->kind->bytes(op, round, op->rank, to);
        zt_links_send(c->family->links, c->world[to], ZT_FRAME_ROUND, c->context,
                      bytes ? op->kind->give(op, round, to) : NULL, bytes);
    }
}

static bool have_all(struct tcp_comm *c, const struct zt_rounds *op) {
    for (int r = 0; r < op->size; r++) {
        if (r == op->rank)
            continue;
        c->frames[r] = zt_links_find(c->family->links, c->world[r], ZT_FRAME_ROUND, c->context);
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
            ok = zt_fail(err, ZT_EXIT_RUN, "%s: rank %d gave %zu bytes, rank %d wants %zu", op->kind->name, c->world[r],
                         (size_t)c->frames[r]->head.bytes, c->world[op->rank], op->kind->bytes(op, round, r, op->rank));
    if (ok)
        op->kind->take(op, round, c->given);
    for (int r = 0; r < op->size; r++)
        if (r != op->rank)
            zt_links_drop(c->family->links, c->world[r], c->frames[r]);
    return ok;
}

enum phase { TO_GIVE, TO_TAKE };

/* Brings the transfers as far as what has come allows. */
static bool advance(struct family *f, struct zt_err *err) {
    while (f->first) {
        struct zt_transfer *t = f->first;
        struct tcp_comm *c = down(t->row.comm);
        struct zt_rounds op = rounds_of(c, t);
        if (t->row.phase == TO_GIVE)
            give(c, &op, t->row.round);
        t->row.phase = TO_TAKE;
        if (!have_all(c, &op))
            return true;
        if (!take(c, &op, t->row.round, err)) {
            f->first = NULL;
            return false;
        }
        t->row.phase = TO_GIVE;
        if (++t->row.round < t->row.rounds)
            continue;
        f->first = t->row.next;
        t->done = true;
    }
    return true;
}

/* What came before a failure counts: a rank that fails for what all have been told leaves them to find it out. */
static bool progress(struct family *f, int ms, struct zt_err *err) {
    struct zt_err failed = { 0 };
    bool well = zt_links_move(f->links, ms, &failed);
    return advance(f, err) && (well || !f->first || !is_failed(f, err));
}

static bool tcp_poll(struct zt_comm *c, struct zt_err *err) {
    struct family *f = down(c)->family;
    return !f->first || progress(f, 0, err);
}

static bool start(struct tcp_comm *c, struct zt_transfer *t, const struct zt_rounds_kind *kind, size_t bytes, int root,
                  struct zt_err *err) {
    struct family *f = c->family;
    if (is_failed(f, err))
        return false;
    t->done = false;
    t->row.comm = &c->base;
    t->row.next = NULL;
    t->row.kind = kind;
    t->row.bytes = bytes;
    t->row.root = root;
    t->row.phase = TO_GIVE;
    t->row.round = 0;
    struct zt_rounds op = rounds_of(c, t);
    t->row.rounds = kind->count(&op);
    if (f->first)
        f->last->row.next = t;
    else
        f->first = t;
    f->last = t;
    return tcp_poll(&c->base, err);
}

static bool tcp_start(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    return start(down(base), t, t->kind == ZT_REDUCE_SCATTER ? &zt_rounds_reduce_scatter : &zt_rounds_all_gather,
                 (size_t)t->bound[base->size] * t->bytes_per_element, 0, err);
}

static bool tcp_wait(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct family *f = down(base)->family;
    const char *before = zt_where_enter(base->where, t->row.kind->name);
    bool ok = true;
    while (ok && !t->done) {
        ok = f->first || zt_fail(err, ZT_EXIT_RUN, "wait: an earlier failure ended this transfer");
        ok = ok && progress(f, WAIT_MS, err);
    }
    if (ok) /* else it says where it failed */
        zt_where_leave(base->where, before);
    return ok;
}

static bool run(struct zt_comm *c, struct zt_transfer t, const struct zt_rounds_kind *kind, size_t bytes, int root,
                struct zt_err *err) {
    return start(down(c), &t, kind, bytes, root, err) && tcp_wait(c, &t, err);
}

static bool tcp_broadcast(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err) {
    return zt_comm_check_root(c, root, err) &&
           run(c, (struct zt_transfer){ .data = data }, &zt_rounds_broadcast, bytes, root, err);
}

static bool tcp_sum(struct zt_comm *c, double *values, int count, struct zt_err *err) {
    return run(c, (struct zt_transfer){ .data = values }, &zt_rounds_sum,
               count > 0 ? (size_t)count * sizeof *values : 0, 0, err);
}

static bool tcp_barrier(struct zt_comm *c, struct zt_err *err) {
    return run(c, (struct zt_transfer){ 0 }, &zt_rounds_barrier, 0, 0, err);
}

/* ---- messages ---- */

/* Whether another message to `to` has room, of those that it has not said to have taken. */
static bool has_room(struct tcp_comm *c, int to) {
    struct zt_links *l = c->family->links;
    struct zt_frame *taken;
    while ((taken = zt_links_find(l, c->world[to], ZT_FRAME_TAKEN, c->context))) {
        c->underway[to]--;
        zt_links_drop(l, c->world[to], taken);
    }
    return c->underway[to] < BUFFERED;
}

static bool tcp_send(struct zt_comm *base, const void *data, size_t bytes, int to, struct zt_err *err) {
    struct tcp_comm *c = down(base);
    if (!zt_comm_check_peer(base, "send", to, err) || !move(c->family, 0, err))
        return false;
    const char *before = zt_where_enter(base->where, "send");
    while (!has_room(c, to))
        if (!move(c->family, WAIT_MS, err))
            return false;
    c->underway[to]++;
    zt_links_send(c->family->links, c->world[to], ZT_FRAME_MESSAGE, c->context, data, bytes);
    zt_where_leave(base->where, before);
    return true;
}

static bool tcp_recv(struct zt_comm *base, void *data, size_t bytes, int from, struct zt_err *err) {
    struct tcp_comm *c = down(base);
    struct zt_links *l = c->family->links;
    struct zt_frame *f;
    if (!zt_comm_check_peer(base, "recv", from, err) || is_failed(c->family, err))
        return false;
    const char *before = zt_where_enter(base->where, "recv");
    while (!(f = zt_links_find(l, c->world[from], ZT_FRAME_MESSAGE, c->context)))
        if (!move(c->family, WAIT_MS, err))
            return false;
    if (f->head.bytes != bytes)
        return zt_fail(err, ZT_EXIT_RUN, "rank %d sent %zu bytes, rank %d wants %zu bytes", c->world[from],
                       (size_t)f->head.bytes, c->world[base->rank], bytes);
    if (bytes)
        memcpy(data, f->data, bytes);
    zt_links_drop(l, c->world[from], f);
    zt_links_send(l, c->world[from], ZT_FRAME_TAKEN, c->context, NULL, 0);
    zt_where_leave(base->where, before);
    return true;
}

/* ---- the whole ---- */

/* Takes over `world`. */
static struct zt_comm *comm_create(struct family *f, int *world, int rank, int size, int context) {
    struct tcp_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &tcp_api, .rank = rank, .size = size };
    c->family = f;
    c->world = world;
    c->context = (uint32_t)context;
    c->underway = zt_calloc((size_t)size, sizeof *c->underway);
    c->given = zt_calloc((size_t)size, sizeof *c->given);
    c->frames = zt_calloc((size_t)size, sizeof *c->frames);
    f->members++;
    return &c->base;
}

/* All ranks learn all colors; the number of the new communicators is one that no member has used yet. */
static struct zt_comm *tcp_split(struct zt_comm *base, int color, struct zt_err *err) {
    struct tcp_comm *c = down(base);
    struct wish {
        int color, next_context;
    } *wishes = zt_calloc((size_t)base->size, sizeof *wishes);
    wishes[base->rank] = (struct wish){ .color = color, .next_context = c->family->next_context };
    int *world = zt_calloc((size_t)base->size, sizeof *world), rank = 0, size = 0, context = 0;
    bool ok = zt_comm_exchange(base, wishes, sizeof *wishes, err);
    for (int r = 0; r < base->size && ok; r++) {
        context = wishes[r].next_context > context ? wishes[r].next_context : context;
        if (wishes[r].color != color)
            continue;
        rank += r < base->rank;
        world[size++] = c->world[r];
    }
    free(wishes);
    if (!ok) {
        free(world);
        return NULL;
    }
    c->family->next_context = context + 1;
    return comm_create(c->family, world, rank, size, context);
}

static void tcp_abort(struct zt_comm *base, const char *why) {
    struct family *f = down(base)->family;
    struct zt_err first = { 0 };
    f->first = NULL; /* buffers are their owners' again */
    if (move(f, 0, &first))
        zt_links_fail(f->links, why);
}

/* What was sent arrives after the sender left its communicator: lines live as long as the family. */
static void tcp_destroy(struct zt_comm *base) {
    if (!base)
        return;
    struct tcp_comm *c = down(base);
    struct family *f = c->family;
    struct zt_err failed = { 0 };
    bool last = --f->members == 0;
    if (last) {
        zt_links_destroy(f->links, tcp_barrier(base, &failed));
        free(f);
    }
    free(c->underway);
    free(c->given);
    free(c->frames);
    free(c->world);
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
    .broadcast = tcp_broadcast,
    .sum = tcp_sum,
    .barrier = tcp_barrier,
    .send = tcp_send,
    .recv = tcp_recv,
    .split = tcp_split,
    .abort = tcp_abort,
    .destroy = tcp_destroy,
};

struct zt_comm *zt_comm_tcp_create(const struct zt_meeting *m, struct zt_err *err) {
    int *fds = zt_calloc((size_t)m->size, sizeof *fds), *world = zt_calloc((size_t)m->size, sizeof *world);
    if (!zt_tcp_meet(m, fds, err)) {
        free(fds);
        free(world);
        return NULL;
    }
    struct family *f = zt_calloc(1, sizeof *f);
    f->links = zt_links_create(fds, m->rank, m->size);
    f->next_context = 1;
    for (int r = 0; r < m->size; r++)
        world[r] = r;
    free(fds);
    return comm_create(f, world, m->rank, m->size, 0);
}
