/* Communicator for data in device memory that the host cannot access, over a communicator of host memory.
 *
 *     start   copies the data that other ranks need to the host, waits for the copy, starts the host transfer
 *     wait    waits for the host transfer, queues the copy of the received data to the device
 *
 * A stage is the host copy of a range of device memory while transfers of the range are in progress. An all-gather that
 * starts after the reduce-scatter of the same range (mode ddp) shares its stage, which then already has the sums:
 *
 *     device   |------------- bucket -------------|
 *     stage    |------------- reduce_scatter -----|   1. copied here as a whole
 *              |- all_gather -|- all_gather ------|   2. no copy: the reduce-scatter writes its sums here
 *
 * The device's queue is in order, so a stage may be reused once the host has waited for the queue, as start does. */
#include "base/arena.h"
#include "device/device.h"
#include "parallel/comm/comm.h"

#include <assert.h>
#include <stdlib.h>

struct stage {
    struct stage *next;
    char *host;
    size_t room;
    const char *at; /* the device memory that it is a copy of */
    size_t bytes;
    int users; /* transfers in progress; 0: free */
};

struct moving {
    struct moving *next;
    struct zt_transfer inner, *outer; /* outer NULL: free */
    struct stage *stage;
};

struct staged_comm {
    struct zt_comm base;
    struct zt_comm *inner;
    bool owns_inner;
    struct zt_device *device;
    struct stage *stages;
    struct moving *moving;
};

static const struct zt_comm_api staged_api;

static struct staged_comm *down(struct zt_comm *c) {
    assert(c->api == &staged_api);
    return (struct staged_comm *)c;
}

/* ---- stages ---- */

static bool grow(struct staged_comm *c, struct stage *s, size_t bytes, struct zt_err *err) {
    if (s->room >= bytes)
        return true;
    if (s->room && !c->device->api->synchronize(c->device, err)) /* its last copy to the device may be queued */
        return false;
    c->device->api->free_host(c->device, s->host, s->room);
    s->room = 0;
    s->host = c->device->api->allocate_host(c->device, bytes, "data on their way between ranks", err);
    s->room = s->host ? bytes : 0;
    return s->host != NULL;
}

/* A free stage: the smallest that is large enough, else the largest, which grows. */
static struct stage *take_stage(struct staged_comm *c, const void *at, size_t bytes, struct zt_err *err) {
    struct stage *best = NULL;
    for (struct stage *s = c->stages; s; s = s->next)
        if (!s->users && (!best || (s->room >= bytes && (best->room < bytes || s->room < best->room)) ||
                          (best->room < bytes && s->room > best->room)))
            best = s;
    if (!best) {
        best = zt_calloc(1, sizeof *best);
        best->next = c->stages;
        c->stages = best;
    }
    best->at = at;
    best->bytes = bytes;
    return grow(c, best, bytes, err) ? best : NULL;
}

static struct stage *find_stage(const struct staged_comm *c, const void *at, size_t bytes) {
    const char *first = at;
    for (struct stage *s = c->stages; s; s = s->next)
        if (s->users && first >= s->at && first + bytes <= s->at + s->bytes)
            return s;
    return NULL;
}

static bool to_host(struct staged_comm *c, void *to, const void *from, size_t bytes, struct zt_err *err) {
    const struct zt_device_api *api = c->device->api;
    return api->to_host(c->device, to, from, bytes, err) && api->synchronize(c->device, err);
}

static bool to_device(struct staged_comm *c, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return c->device->api->to_device(c->device, to, from, bytes, err);
}

/* ---- transfers ---- */

/* Bytes before element `bound[rank]` of a transfer. */
static size_t offset(const struct zt_transfer *t, int rank) {
    return (size_t)t->bound[rank] * t->bytes_per_element;
}

static struct moving *take_moving(struct staged_comm *c) {
    struct moving *m = c->moving;
    while (m && m->outer)
        m = m->next;
    if (m)
        return m;
    m = zt_calloc(1, sizeof *m);
    m->next = c->moving;
    return c->moving = m;
}

/* Copies the data that other ranks read to the stage: all data of a reduce-scatter, the own slice of an all-gather. */
static bool bring(struct staged_comm *c, const struct zt_transfer *t, struct stage *s, struct zt_err *err) {
    bool gathers = t->kind == ZT_ALL_GATHER;
    size_t first = gathers ? offset(t, c->base.rank) : 0;
    size_t end = offset(t, gathers ? c->base.rank + 1 : c->base.size);
    return to_host(c, s->host + first, (const char *)t->data + first, end - first, err);
}

static bool give(struct staged_comm *c, const struct moving *m, size_t first, size_t end, struct zt_err *err) {
    return to_device(c, (char *)m->outer->data + first, (const char *)m->inner.data + first, end - first, err);
}

/* Queues the copy of the results of a complete host transfer to the device. */
static bool finish(struct staged_comm *c, struct moving *m, struct zt_err *err) {
    const struct zt_transfer *t = m->outer;
    size_t first = offset(t, c->base.rank), end = offset(t, c->base.rank + 1), all = offset(t, c->base.size);
    bool ok = t->kind == ZT_REDUCE_SCATTER ? give(c, m, first, end, err)
                                           : give(c, m, 0, first, err) && give(c, m, end, all, err);
    m->stage->users--;
    m->outer->done = true;
    m->outer = NULL;
    return ok;
}

/* After a failure no transfer uses its buffer any more. */
static void forget(struct staged_comm *c) {
    for (struct moving *m = c->moving; m; m = m->next)
        m->outer = NULL;
    for (struct stage *s = c->stages; s; s = s->next)
        s->users = 0;
}

/* Follows each call of the host communicator; `well`: the call succeeded. Finishes the transfers that are complete. */
static bool finish_done(struct staged_comm *c, bool well, struct zt_err *err) {
    for (struct moving *m = c->moving; well && m; m = m->next)
        if (m->outer && m->inner.done)
            well = finish(c, m, err);
    if (!well)
        forget(c);
    return well;
}

static bool finish_all(struct staged_comm *c, struct zt_err *err) {
    bool well = true;
    for (struct moving *m = c->moving; well && m; m = m->next)
        well = !m->outer || c->inner->api->wait(c->inner, &m->inner, err);
    return finish_done(c, well, err);
}

static bool overlaps(const struct staged_comm *c, const char *first, size_t bytes) {
    for (const struct stage *s = c->stages; s; s = s->next)
        if (s->users && first < s->at + s->bytes && s->at < first + bytes)
            return true;
    return false;
}

static bool staged_start(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct staged_comm *c = down(base);
    size_t bytes = offset(t, base->size);
    struct stage *s = find_stage(c, t->data, bytes);
    t->done = false;
    if (!s && overlaps(c, t->data, bytes) && !finish_all(c, err))
        return false;
    if (!s && (!(s = take_stage(c, t->data, bytes, err)) || !bring(c, t, s, err)))
        return false;
    struct moving *m = take_moving(c);
    m->outer = t;
    m->stage = s;
    m->inner = (struct zt_transfer){ t->kind, s->host + ((const char *)t->data - s->at), t->bound, t->bytes_per_element,
                                     t->dtype };
    s->users++;
    if (c->inner->api->start(c->inner, &m->inner, err))
        return true;
    forget(c);
    return false;
}

static bool staged_poll(struct zt_comm *base, struct zt_err *err) {
    struct staged_comm *c = down(base);
    return finish_done(c, c->inner->api->poll(c->inner, err), err);
}

static bool staged_wait(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct staged_comm *c = down(base);
    struct moving *m = c->moving;
    while (m && m->outer != t)
        m = m->next;
    if (!m) /* completed by an earlier call */
        return staged_poll(base, err);
    return finish_done(c, c->inner->api->wait(c->inner, &m->inner, err), err);
}

/* ---- other collectives, messages ---- */

static bool staged_broadcast(struct zt_comm *base, void *data, size_t bytes, int root, struct zt_err *err) {
    struct staged_comm *c = down(base);
    struct stage *s = finish_all(c, err) ? take_stage(c, data, bytes, err) : NULL;
    return s && to_host(c, s->host, data, bytes, err) &&
           c->inner->api->broadcast(c->inner, s->host, bytes, root, err) &&
           (base->rank == root || to_device(c, data, s->host, bytes, err));
}

static bool staged_sum(struct zt_comm *base, double *values, int count, struct zt_err *err) {
    struct staged_comm *c = down(base);
    return finish_done(c, c->inner->api->sum(c->inner, values, count, err), err);
}

static bool staged_barrier(struct zt_comm *base, struct zt_err *err) {
    struct staged_comm *c = down(base);
    return finish_done(c, c->inner->api->barrier(c->inner, err), err);
}

static bool staged_send(struct zt_comm *base, const void *data, size_t bytes, int to, struct zt_err *err) {
    struct staged_comm *c = down(base);
    struct stage *s = take_stage(c, data, bytes, err);
    return s && to_host(c, s->host, data, bytes, err) && c->inner->api->send(c->inner, s->host, bytes, to, err);
}

static bool staged_recv(struct zt_comm *base, void *data, size_t bytes, int from, struct zt_err *err) {
    struct staged_comm *c = down(base);
    struct stage *s = take_stage(c, data, bytes, err);
    return s && c->device->api->synchronize(c->device, err) && /* its last copy to the device may be queued */
           c->inner->api->recv(c->inner, s->host, bytes, from, err) && to_device(c, data, s->host, bytes, err);
}

static bool staged_all_to_all(struct zt_comm *base, const void *from, void *to, size_t bytes, struct zt_err *err) {
    struct staged_comm *c = down(base);
    const size_t all = (size_t)base->size * bytes;
    struct stage *s = finish_all(c, err) ? take_stage(c, to, 2 * all, err) : NULL;
    return s && to_host(c, s->host, from, all, err) &&
           c->inner->api->all_to_all(c->inner, s->host, s->host + all, bytes, err) &&
           to_device(c, to, s->host + all, all, err);
}

static struct zt_comm *staged_split(struct zt_comm *base, int color, struct zt_err *err) {
    struct zt_comm *inner = down(base)->inner, *part = inner->api->split(inner, color, err);
    return part ? zt_comm_staged_create(part, down(base)->device, true) : NULL;
}

static void staged_abort(struct zt_comm *c, const char *why) {
    down(c)->inner->api->abort(down(c)->inner, why);
    forget(down(c));
}

static void staged_destroy(struct zt_comm *base) {
    if (!base)
        return;
    struct staged_comm *c = down(base);
    for (struct stage *s = c->stages, *next; s; s = next) {
        next = s->next;
        c->device->api->free_host(c->device, s->host, s->room);
        free(s);
    }
    for (struct moving *m = c->moving, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    if (c->owns_inner)
        c->inner->api->destroy(c->inner);
    free(c);
}

static const struct zt_comm_api staged_api = {
    .name = "staged",
    .reduce_scatter = zt_comm_reduce_scatter,
    .all_gather = zt_comm_all_gather,
    .start = staged_start,
    .poll = staged_poll,
    .wait = staged_wait,
    .share = zt_comm_share_nothing,
    .unshare = zt_comm_unshare_nothing,
    .broadcast = staged_broadcast,
    .sum = staged_sum,
    .barrier = staged_barrier,
    .send = staged_send,
    .recv = staged_recv,
    .all_to_all = staged_all_to_all,
    .split = staged_split,
    .abort = staged_abort,
    .destroy = staged_destroy,
};

struct zt_comm *zt_comm_staged_create(struct zt_comm *inner, struct zt_device *device, bool owns) {
    struct staged_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &staged_api, .rank = inner->rank, .size = inner->size, .status = inner->status };
    c->inner = inner;
    c->owns_inner = owns;
    c->device = device;
    return &c->base;
}
