/* Communicator of threads in one process. It defines the results of the other communicators, and tests of several ranks
 * use it.
 *
 * A group is one communicator, shared by its ranks. A family is a group and all groups split from it; one failure ends
 * all of them. In a collective a rank reads the buffers of the other ranks directly:
 *
 *     open     post {function, bytes, pointer}, wait for all ranks; fails on abort, a missing rank or unequal posts
 *     work     copy or add the other ranks' data
 *     close    wait until all ranks have finished reading; cannot fail
 *
 * Either all ranks pass `open` or none does (barrier.h): a complete barrier counts even if an abort comes at the same
 * time. So every rank reaches `close`, and no rank returns a buffer to its caller while another rank reads it, even if
 * a third one aborts. */
#include "base/arena.h"
#include "parallel/comm/comm.h"
#include "parallel/comm/barrier.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUM_PIECE = 64,   /* scalars added between two barriers of sum() */
    MOST_RANKS = 256, /* memory of the rings grows with the square of the ranks */
};

struct message {
    void *data;
    size_t bytes, room;
};

/* Messages from one rank to another. Only the sender writes `sent`, only the receiver `received`; both only grow. */
struct ring {
    _Alignas(64) atomic_uint sent;
    _Alignas(64) atomic_uint received;
    struct message slots[ZT_COMM_BUFFERED];
};

/* The call that a rank is in. Function, bytes and root must be equal on all ranks. */
struct post {
    const char *function;
    size_t bytes;
    int root;           /* broadcast, else 0 */
    int color;          /* split */
    struct group *made; /* split: the new group, which the lowest rank of the color creates */
};

struct family {
    pthread_mutex_t lock; /* guards the list; taken before a group's lock, never after */
    struct group *groups;
    atomic_bool aborted; /* set after the two below are written */
    int failed_rank;     /* rank in the root communicator, as in messages */
    char why[ZT_ERR_TEXT / 2];
};

struct group {
    struct family *family;
    struct group *next;
    int size;
    struct zt_barrier barrier; /* its lock guards the three below */
    int members;               /* ranks that have not destroyed their communicator */
    bool *left;                /* by rank: destroyed */
    atomic_int first_left;     /* the first rank that left, for messages; -1: none. Read without the lock too */
    int *world_rank;
    struct post *posts;
    const void **data;  /* by rank: posted data, the addends of zt_comm_sum_in_rank_order() */
    struct ring *rings; /* [from][to]; pages of unused rings take no memory */
    size_t rings_bytes;
};

struct thread_comm {
    struct zt_comm base;
    struct group *group;
    struct zt_transfer_queue queue; /* only the first transfer has been posted */
};

/* A transfer waits for earlier ones, then for the posts of all ranks, then for all ranks to finish reading. */
enum phase { QUEUED, OPENING, CLOSING };

static const struct zt_comm_api thread_api;

static struct thread_comm *down(struct zt_comm *c) {
    assert(c->api == &thread_api);
    return (struct thread_comm *)c;
}

/* Whether the awaited event has become impossible: by an abort, or because the awaited rank left. */
static bool is_impossible(const void *with, int peer) {
    const struct group *g = with;
    return atomic_load(&g->family->aborted) ||
           (peer == ZT_BARRIER_ALL ? atomic_load(&g->first_left) >= 0 : g->left[peer]);
}

/* Reports the cause; returns false. */
static bool fail_impossible(const struct group *g, int peer, struct zt_err *err) {
    const struct family *f = g->family;
    if (atomic_load(&f->aborted))
        return zt_fail(err, ZT_EXIT_RANK, "rank %d: %s", f->failed_rank, f->why);
    return zt_fail(err, ZT_EXIT_RANK, "rank %d left while others waited for it",
                   g->world_rank[peer == ZT_BARRIER_ALL ? atomic_load(&g->first_left) : peer]);
}

/* The same for a rank that is about to wait. It takes the lock only after a failure; a later failure ends the wait. */
static bool is_over(struct group *g, int peer, struct zt_err *err) {
    if (!atomic_load(&g->family->aborted) && atomic_load(&g->first_left) < 0)
        return false;
    pthread_mutex_lock(&g->barrier.lock);
    const bool impossible = is_impossible(g, peer);
    pthread_mutex_unlock(&g->barrier.lock);
    return impossible && !fail_impossible(g, peer, err);
}

static bool open_meeting(struct group *g, struct zt_err *err) {
    unsigned old;
    if (is_over(g, ZT_BARRIER_ALL, err))
        return false;
    zt_barrier_arrive(&g->barrier, &old);
    return zt_barrier_wait(&g->barrier, old, false) || !zt_barrier_withdraw(&g->barrier, old) ||
           fail_impossible(g, ZT_BARRIER_ALL, err);
}

/* All ranks reach this barrier, and nothing interrupts the wait. */
static void close_round(struct group *g) {
    unsigned old;
    zt_barrier_arrive(&g->barrier, &old);
    zt_barrier_wait(&g->barrier, old, true);
}

/* Fails on all ranks or on none. */
static bool posts_agree(const struct group *g, int rank, struct zt_err *err) {
    const struct post *own = &g->posts[rank];
    for (int r = 0; r < g->size; r++) {
        const struct post *p = &g->posts[r];
        if (strcmp(p->function, own->function) || p->bytes != own->bytes || p->root != own->root)
            return zt_fail(err, ZT_EXIT_RUN,
                           "rank %d calls %s (%zu bytes, root %d) where rank %d calls %s (%zu bytes, root %d)",
                           g->world_rank[rank], own->function, own->bytes, own->root, g->world_rank[r], p->function,
                           p->bytes, p->root);
    }
    return true;
}

static bool end_transfers(struct thread_comm *c, struct zt_err *err);

static bool open_round(struct thread_comm *c, struct post post, const void *data, struct zt_err *err) {
    struct group *g = c->group;
    if (!end_transfers(c, err))
        return false;
    g->posts[c->base.rank] = post;
    g->data[c->base.rank] = data;
    const char *before = zt_rank_status_enter(c->base.status, post.function);
    if (!open_meeting(g, err))
        return false;
    zt_rank_status_leave(c->base.status, before);
    if (posts_agree(g, c->base.rank, err))
        return true;
    close_round(g);
    return false;
}

static bool is_aborted(struct group *g, struct zt_err *err) {
    return atomic_load(&g->family->aborted) && !fail_impossible(g, ZT_BARRIER_ALL, err);
}

/* ---- the work between open and close ---- */

static void add_own_slice(struct thread_comm *c, const struct zt_transfer *t) {
    zt_comm_sum_in_rank_order(t->dtype, t->data, c->group->data, c->base.size, t->bound[c->base.rank],
                              t->bound[c->base.rank + 1]);
}

static void copy_slices(struct thread_comm *c, const struct zt_transfer *t) {
    /* The order starts behind the rank itself, so that the ranks do not all read one peer at once. */
    for (int i = 1; i < c->base.size; i++) {
        int r = (c->base.rank + i) % c->base.size;
        size_t first = (size_t)t->bound[r] * t->bytes_per_element;
        size_t bytes = (size_t)t->bound[r + 1] * t->bytes_per_element - first;
        if (bytes)
            memcpy((char *)t->data + first, (const char *)c->group->data[r] + first, bytes);
    }
}

static const struct {
    const char *name;
    void (*work)(struct thread_comm *c, const struct zt_transfer *t);
} transfers[] = {
    [ZT_REDUCE_SCATTER] = { "reduce_scatter", add_own_slice },
    [ZT_ALL_GATHER] = { "all_gather", copy_slices },
};

static void drop_first(struct thread_comm *c) {
    c->queue.first = c->queue.first->row.next;
}

/* Drops all transfers after a failure. It first closes the open transfer, so that no peer reads this rank's buffers
 * afterwards. */
static void drop_all(struct thread_comm *c) {
    struct group *g = c->group;
    const struct zt_transfer *t = c->queue.first;
    if (t && t->row.phase == OPENING && !zt_barrier_withdraw(&g->barrier, t->row.came))
        close_round(g);
    else if (t && t->row.phase == CLOSING)
        zt_barrier_wait(&g->barrier, t->row.came, true);
    c->queue.first = NULL;
}

/* Advances the first transfer by one phase. False: it must wait for other ranks, or it failed (an error was added). */
static bool advance(struct thread_comm *c, struct zt_err *err) {
    struct group *g = c->group;
    struct zt_transfer *t = c->queue.first;
    if (!t)
        return false;
    switch ((enum phase)t->row.phase) {
    case QUEUED:
        g->posts[c->base.rank] = (struct post){ .function = transfers[t->kind].name,
                                                .bytes = (size_t)t->bound[c->base.size] * t->bytes_per_element };
        g->data[c->base.rank] = t->data;
        if (is_over(g, ZT_BARRIER_ALL, err))
            return false;
        zt_barrier_arrive(&g->barrier, &t->row.came);
        t->row.phase = OPENING;
        return true;
    case OPENING:
        if (!zt_barrier_is_complete(&g->barrier, t->row.came))
            return is_aborted(g, err) && false;
        if (!posts_agree(g, c->base.rank, err)) {
            close_round(g);
            drop_first(c);
            return false;
        }
        transfers[t->kind].work(c, t);
        t->row.phase = CLOSING;
        zt_barrier_arrive(&g->barrier, &t->row.came);
        return true;
    case CLOSING:
        if (!zt_barrier_is_complete(&g->barrier, t->row.came))
            return false;
        drop_first(c);
        return t->done = true;
    }
    return false;
}

static bool thread_start(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct thread_comm *c = down(base);
    t->done = false;
    t->row.phase = QUEUED;
    zt_transfer_append(&c->queue, t);
    return base->api->poll(base, err);
}

static bool thread_poll(struct zt_comm *base, struct zt_err *err) {
    struct thread_comm *c = down(base);
    int before = err->count;
    if (!c->queue.first)
        return !is_aborted(c->group, err);
    while (advance(c, err))
        ;
    if (err->count == before)
        return true;
    drop_all(c);
    return false;
}

/* A transfer that has been opened cannot fail. */
static bool thread_wait(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct thread_comm *c = down(base);
    struct group *g = c->group;
    if (!thread_poll(base, err))
        return false;
    const char *before = zt_rank_status_enter(base->status, transfers[t->kind].name);
    while (!t->done) {
        if (!c->queue.first)
            return zt_fail(err, ZT_EXIT_RUN, "wait: an earlier failure ended this transfer");
        bool opening = c->queue.first->row.phase == OPENING;
        if (!zt_barrier_wait(&g->barrier, c->queue.first->row.came, !opening)) {
            drop_all(c);
            return fail_impossible(g, ZT_BARRIER_ALL, err);
        }
        if (!thread_poll(base, err))
            return false;
    }
    zt_rank_status_leave(base->status, before);
    return true;
}

/* Completes the transfers in progress, which all other collectives do first. */
static bool end_transfers(struct thread_comm *c, struct zt_err *err) {
    return !c->queue.first || thread_wait(&c->base, c->queue.last, err);
}

static bool thread_broadcast(struct zt_comm *base, void *data, size_t bytes, int root, struct zt_err *err) {
    struct thread_comm *c = down(base);
    if (!zt_comm_check_root(base, root, err))
        return false;
    struct post post = { .function = "broadcast", .bytes = bytes, .root = root };
    if (!open_round(c, post, data, err))
        return false;
    if (base->rank != root && bytes)
        memcpy(data, c->group->data[root], bytes);
    close_round(c->group);
    return true;
}

/* A rank writes a piece of the result after all ranks have read that piece; the others then read the next. */
static bool thread_sum(struct zt_comm *base, double *values, int count, struct zt_err *err) {
    struct thread_comm *c = down(base);
    struct post post = { .function = "sum", .bytes = (size_t)count * sizeof *values };
    if (!open_round(c, post, values, err))
        return false;
    double total[SUM_PIECE];
    for (int at = 0; at < count; at += SUM_PIECE) {
        int n = count - at < SUM_PIECE ? count - at : SUM_PIECE;
        memcpy(total, (const double *)c->group->data[0] + at, (size_t)n * sizeof *total);
        for (int r = 1; r < base->size; r++)
            for (int i = 0; i < n; i++)
                total[i] += ((const double *)c->group->data[r])[at + i];
        close_round(c->group);
        memcpy(values + at, total, (size_t)n * sizeof *total);
    }
    if (count <= 0)
        close_round(c->group);
    return true;
}

static bool thread_barrier(struct zt_comm *base, struct zt_err *err) {
    struct thread_comm *c = down(base);
    if (!open_round(c, (struct post){ .function = "barrier" }, NULL, err))
        return false;
    close_round(c->group);
    return true;
}

static struct ring *ring_of(struct group *g, int from, int to) {
    return &g->rings[(size_t)from * (size_t)g->size + (size_t)to];
}

static bool thread_send(struct zt_comm *base, const void *data, size_t bytes, int to, struct zt_err *err) {
    struct group *g = down(base)->group;
    if (!zt_comm_check_peer(base, "send", to, err) || is_over(g, to, err))
        return false;
    struct ring *ring = ring_of(g, base->rank, to);
    unsigned sent = atomic_load(&ring->sent);
    const char *before = zt_rank_status_enter(base->status, "send");
    if (!zt_barrier_await(&g->barrier, &ring->received, sent - ZT_COMM_BUFFERED, to))
        return fail_impossible(g, to, err);
    zt_rank_status_leave(base->status, before);
    struct message *m = &ring->slots[sent % ZT_COMM_BUFFERED];
    if (!zt_block_reserve(&m->data, &m->room, bytes, "message buffer", err)) /* slots keep their memory */
        return false;
    if (bytes)
        memcpy(m->data, data, bytes);
    m->bytes = bytes;
    zt_barrier_count(&g->barrier, &ring->sent);
    return true;
}

/* Messages sent before their sender left can still be received. */
static bool thread_recv(struct zt_comm *base, void *data, size_t bytes, int from, struct zt_err *err) {
    struct group *g = down(base)->group;
    if (!zt_comm_check_peer(base, "recv", from, err) || is_aborted(g, err))
        return false;
    struct ring *ring = ring_of(g, from, base->rank);
    unsigned received = atomic_load(&ring->received);
    const char *before = zt_rank_status_enter(base->status, "recv");
    if (!zt_barrier_await(&g->barrier, &ring->sent, received, from))
        return fail_impossible(g, from, err);
    zt_rank_status_leave(base->status, before);
    const struct message *m = &ring->slots[received % ZT_COMM_BUFFERED];
    if (m->bytes != bytes)
        return zt_fail(err, ZT_EXIT_RUN, "rank %d sent %zu bytes, rank %d wants %zu bytes", g->world_rank[from],
                       m->bytes, g->world_rank[base->rank], bytes);
    if (bytes)
        memcpy(data, m->data, bytes);
    zt_barrier_count(&g->barrier, &ring->received);
    return true;
}

static void group_destroy(struct group *g) {
    for (size_t i = 0; i < (size_t)g->size * (size_t)g->size; i++)
        for (int k = 0; k < ZT_COMM_BUFFERED; k++)
            zt_block_destroy(g->rings[i].slots[k].data, g->rings[i].slots[k].room);
    zt_block_destroy(g->rings, g->rings_bytes);
    zt_barrier_finish(&g->barrier);
    free(g->data);
    free(g->posts);
    free(g->world_rank);
    free(g->left);
    free(g);
}

/* The group is not in the family's list until family_join(). */
static struct group *group_create(struct family *family, int size, struct zt_err *err) {
    size_t rings_bytes = (size_t)size * (size_t)size * sizeof(struct ring);
    struct ring *rings = zt_block_create(rings_bytes, "thread communicator", err);
    if (!rings)
        return NULL;
    struct group *g = zt_calloc(1, sizeof *g);
    *g = (struct group){
        .family = family, .size = size, .members = size, .rings = rings, .rings_bytes = rings_bytes, .first_left = -1
    };
    zt_barrier_init(&g->barrier, size, is_impossible, g);
    g->left = zt_calloc((size_t)size, sizeof *g->left);
    g->world_rank = zt_calloc((size_t)size, sizeof *g->world_rank);
    g->posts = zt_calloc((size_t)size, sizeof *g->posts);
    g->data = zt_calloc((size_t)size, sizeof *g->data);
    return g;
}

static void family_join(struct group *g) {
    struct family *f = g->family;
    pthread_mutex_lock(&f->lock);
    g->next = f->groups;
    f->groups = g;
    pthread_mutex_unlock(&f->lock);
}

/* True when this was the last group. */
static bool family_leave(struct group *g) {
    struct family *f = g->family;
    pthread_mutex_lock(&f->lock);
    struct group **at = &f->groups;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    bool empty = !f->groups;
    pthread_mutex_unlock(&f->lock);
    return empty;
}

static struct zt_comm *comm_create(struct group *g, int rank) {
    struct thread_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &thread_api, .rank = rank, .size = g->size };
    c->group = g;
    return &c->base;
}

/* The lowest rank of a color creates the group; the other ranks of the color read it from that rank's post. */
static struct zt_comm *thread_split(struct zt_comm *base, int color, struct zt_err *err) {
    struct thread_comm *c = down(base);
    struct group *g = c->group;
    if (!open_round(c, (struct post){ .function = "split", .color = color }, NULL, err))
        return NULL;
    int size = 0, rank = 0, first = -1;
    for (int r = 0; r < base->size; r++) {
        if (g->posts[r].color != color)
            continue;
        first = first < 0 ? r : first;
        rank += r < base->rank;
        size++;
    }
    if (first == base->rank)
        g->posts[first].made = group_create(g->family, size, err);
    close_round(g);
    struct group *part = g->posts[first].made;
    if (part)
        part->world_rank[rank] = g->world_rank[base->rank];
    if (part && rank == 0)
        family_join(part);
    close_round(g);
    if (!part && first != base->rank)
        zt_fail(err, ZT_EXIT_RANK, "rank %d: split: out of memory", g->world_rank[first]);
    return part ? comm_create(part, rank) : NULL;
}

static void thread_abort(struct zt_comm *base, const char *why) {
    struct group *own = down(base)->group;
    struct family *f = own->family;
    pthread_mutex_lock(&f->lock);
    if (!atomic_load(&f->aborted)) {
        f->failed_rank = own->world_rank[base->rank];
        snprintf(f->why, sizeof f->why, "%s", why);
        atomic_store(&f->aborted, true);
    }
    for (struct group *g = f->groups; g; g = g->next)
        zt_barrier_wake(&g->barrier);
    pthread_mutex_unlock(&f->lock);
    drop_all(down(base));
}

static void thread_destroy(struct zt_comm *base) {
    if (!base)
        return;
    struct group *g = down(base)->group;
    drop_all(down(base));
    pthread_mutex_lock(&g->barrier.lock);
    g->left[base->rank] = true;
    if (atomic_load(&g->first_left) < 0)
        atomic_store(&g->first_left, base->rank);
    bool last = --g->members == 0;
    pthread_cond_broadcast(&g->barrier.changed);
    pthread_mutex_unlock(&g->barrier.lock);
    free(base);
    if (!last)
        return;
    struct family *f = g->family;
    bool empty = family_leave(g);
    group_destroy(g);
    if (empty) {
        pthread_mutex_destroy(&f->lock);
        free(f);
    }
}

static const struct zt_comm_api thread_api = {
    .name = "thread",
    .reduce_scatter = zt_comm_reduce_scatter,
    .all_gather = zt_comm_all_gather,
    .start = thread_start,
    .poll = thread_poll,
    .wait = thread_wait,
    .share = zt_comm_share_nothing,
    .unshare = zt_comm_unshare_nothing,
    .broadcast = thread_broadcast,
    .sum = thread_sum,
    .barrier = thread_barrier,
    .send = thread_send,
    .recv = thread_recv,
    .all_to_all = zt_comm_all_to_all,
    .split = thread_split,
    .abort = thread_abort,
    .destroy = thread_destroy,
};

bool zt_comm_thread_create(int size, struct zt_comm *comms[], struct zt_err *err) {
    if (size < 1 || size > MOST_RANKS)
        return zt_fail(err, ZT_EXIT_CONFIG, "thread communicator: %d ranks, allowed 1..%d", size, MOST_RANKS);
    struct family *f = zt_calloc(1, sizeof *f);
    struct group *g = group_create(f, size, err);
    if (!g) {
        free(f);
        return false;
    }
    pthread_mutex_init(&f->lock, NULL);
    family_join(g);
    for (int r = 0; r < size; r++) {
        g->world_rank[r] = r;
        comms[r] = comm_create(g, r);
    }
    return true;
}
