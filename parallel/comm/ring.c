/* Reductions and gathers around a ring, over the point-to-point messages of another communicator.
 *
 * size - 1 steps; in each one every rank sends one slice to the next rank and receives one from the previous:
 *
 *     reduce_scatter   slice r starts at rank r + 1, every rank adds its own addend in passing, rank r adds the last
 *     all_gather       slice r starts at rank r and goes once around
 *
 * A slice travels in pieces, so that no message is large and the next piece leaves while the last one is added. Every
 * rank sends and receives as much as in a pairwise exchange, but with two ranks only. The sums are added in another
 * order than rank order: bits differ from those of the pairwise rows, and with the number of ranks. */
#include "base/arena.h"
#include "parallel/comm/comm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 17 }; /* bytes of a message */

struct ring_comm {
    struct zt_comm base;
    struct zt_comm *inner;
    char *piece; /* what arrives before it is added */
};

static const struct zt_comm_api ring_api;

static struct ring_comm *down(struct zt_comm *c) {
    assert(c->api == &ring_api);
    return (struct ring_comm *)c;
}

static int wrap(const struct zt_comm *c, int rank) {
    return (rank % c->size + c->size) % c->size;
}

/* The bytes of one slice. */
struct slice {
    char *at;
    size_t bytes;
};

static struct slice slice_of(const struct zt_transfer *t, int rank) {
    size_t first = (size_t)t->bound[rank] * t->bytes_per_element;
    return (struct slice){ (char *)t->data + first, (size_t)t->bound[rank + 1] * t->bytes_per_element - first };
}

static size_t piece_of(const struct slice *s, size_t at) {
    return at >= s->bytes ? 0 : s->bytes - at < PIECE ? s->bytes - at : PIECE;
}

/* Adds what came to what is here. */
static void add_piece(const struct ring_comm *c, const struct zt_transfer *t, char *here, size_t bytes) {
    const void *const addends[] = { c->piece, here };
    zt_comm_sum_in_rank_order(t->dtype, here, addends, 2, 0, (int64_t)(bytes / t->bytes_per_element));
}

/* One step of a transfer: sends a slice and receives another one, which is added to the local slice or replaces it. An
 * empty slice is an empty message, so no rank ends before all have started. */
static bool step(struct ring_comm *c, const struct zt_transfer *t, const struct slice *out, const struct slice *in,
                 struct zt_err *err) {
    const bool add = t->kind == ZT_REDUCE_SCATTER;
    const struct zt_comm_api *api = c->inner->api;
    int next = wrap(&c->base, c->base.rank + 1), previous = wrap(&c->base, c->base.rank - 1);
    for (size_t at = 0; at == 0 || at < out->bytes || at < in->bytes; at += PIECE) {
        size_t leaves = piece_of(out, at), comes = piece_of(in, at);
        if ((leaves || at == 0) && !api->send(c->inner, out->at + at, leaves, next, err))
            return false;
        if ((comes || at == 0) && !api->recv(c->inner, add ? c->piece : in->at + at, comes, previous, err))
            return false;
        if (add)
            add_piece(c, t, in->at + at, comes);
    }
    return true;
}

static bool go_round(struct ring_comm *c, const struct zt_transfer *t, struct zt_err *err) {
    bool add = t->kind == ZT_REDUCE_SCATTER;
    for (int k = 0; k < c->base.size - 1; k++) {
        int leaves = c->base.rank - k - add,
            comes = leaves - 1; /* a gather starts with the own slice, a sum behind it */
        struct slice out = slice_of(t, wrap(&c->base, leaves)), in = slice_of(t, wrap(&c->base, comes));
        if (!step(c, t, &out, &in, err))
            return false;
    }
    return true;
}

/* Messages cannot wait for a rank that computes: the whole exchange happens here. */
static bool ring_start(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err) {
    struct ring_comm *ring = down(c);
    t->done = false;
    if (c->size == 1)
        return ring->inner->api->start(ring->inner, t, err) && ring->inner->api->wait(ring->inner, t, err);
    return t->done = go_round(ring, t, err);
}

static bool ring_poll(struct zt_comm *c, struct zt_err *err) {
    return down(c)->inner->api->poll(down(c)->inner, err);
}

static bool ring_wait(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err) {
    return t->done || ring_poll(c, err);
}

static bool ring_broadcast(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err) {
    return down(c)->inner->api->broadcast(down(c)->inner, data, bytes, root, err);
}

static bool ring_sum(struct zt_comm *c, double *values, int count, struct zt_err *err) {
    return down(c)->inner->api->sum(down(c)->inner, values, count, err);
}

static bool ring_barrier(struct zt_comm *c, struct zt_err *err) {
    return down(c)->inner->api->barrier(down(c)->inner, err);
}

static bool ring_send(struct zt_comm *c, const void *data, size_t bytes, int to, struct zt_err *err) {
    return down(c)->inner->api->send(down(c)->inner, data, bytes, to, err);
}

static bool ring_recv(struct zt_comm *c, void *data, size_t bytes, int from, struct zt_err *err) {
    return down(c)->inner->api->recv(down(c)->inner, data, bytes, from, err);
}

static bool ring_all_to_all(struct zt_comm *c, const void *from, void *to, size_t bytes, struct zt_err *err) {
    return down(c)->inner->api->all_to_all(down(c)->inner, from, to, bytes, err);
}

static struct zt_comm *ring_split(struct zt_comm *c, int color, struct zt_err *err) {
    struct zt_comm *part = down(c)->inner->api->split(down(c)->inner, color, err);
    return part ? zt_comm_ring_create(part) : NULL;
}

static void ring_abort(struct zt_comm *c, const char *why) {
    down(c)->inner->api->abort(down(c)->inner, why);
}

static void ring_destroy(struct zt_comm *c) {
    if (!c)
        return;
    down(c)->inner->api->destroy(down(c)->inner);
    free(down(c)->piece);
    free(c);
}

static const struct zt_comm_api ring_api = {
    .name = "ring",
    .reduce_scatter = zt_comm_reduce_scatter,
    .all_gather = zt_comm_all_gather,
    .start = ring_start,
    .poll = ring_poll,
    .wait = ring_wait,
    .share = zt_comm_share_nothing,
    .unshare = zt_comm_unshare_nothing,
    .broadcast = ring_broadcast,
    .sum = ring_sum,
    .barrier = ring_barrier,
    .send = ring_send,
    .recv = ring_recv,
    .all_to_all = ring_all_to_all,
    .split = ring_split,
    .abort = ring_abort,
    .destroy = ring_destroy,
};

struct zt_comm *zt_comm_ring_create(struct zt_comm *inner) {
    struct ring_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &ring_api, .rank = inner->rank, .size = inner->size };
    c->inner = inner;
    c->piece = zt_malloc(PIECE);
    return &c->base;
}
