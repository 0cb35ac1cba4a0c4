/* Transfers with io_uring: every worker has a ring of queue_depth requests. */
#include "parallel/offload/aio_engine.h"

#ifdef ZT_LIBURING
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

struct request {
    int64_t first, bytes; /* of the span */
    struct request *next; /* free list */
};

struct ring {
    struct io_uring uring;
    struct zt_aio_options options;
    struct request *requests, *free;
};

/* A span on its way. */
struct course {
    struct ring *ring;
    const struct zt_aio_span *span;
    int64_t next;  /* first byte that is in no request yet */
    int in_flight; /* requests that have not completed */
    struct zt_err *err;
};

static int workers(const struct zt_aio_options *o) {
    return o->threads;
}

static void close_ring(void *state) {
    struct ring *r = state;
    io_uring_queue_exit(&r->uring);
    free(r->requests);
    free(r);
}

static void *open_ring(const struct zt_aio_options *o, struct zt_err *err) {
    struct ring *r = calloc(1, sizeof *r);
    struct request *requests = calloc((size_t)o->queue_depth, sizeof *requests);
    const int failed = r && requests ? io_uring_queue_init((unsigned)o->queue_depth, &r->uring, 0) : -ENOMEM;
    if (failed) {
        zt_fail(err, ZT_EXIT_RUN, "io_uring: %s", strerror(-failed));
        free(requests);
        free(r);
        return NULL;
    }
    r->options = *o;
    r->requests = requests;
    for (int i = 0; i < o->queue_depth; i++) {
        requests[i].next = r->free;
        r->free = &requests[i];
    }
    return r;
}

/* The ring has an entry for every request. */
static void prepare(const struct course *c, struct request *q) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring->uring);
    const struct zt_aio_span *s = c->span;
    if (s->writes)
        io_uring_prep_write(sqe, s->file, s->at + q->first, (unsigned)q->bytes, (uint64_t)(s->offset + q->first));
    else
        io_uring_prep_read(sqe, s->file, s->at + q->first, (unsigned)q->bytes, (uint64_t)(s->offset + q->first));
    io_uring_sqe_set_data(sqe, q);
}

/* Submits prepared requests, and waits until `wanted` have completed. */
static bool submit(struct course *c, int wanted) {
    struct io_uring *u = &c->ring->uring;
    for (;;) {
        const int n = wanted ? io_uring_submit_and_wait(u, (unsigned)wanted) : io_uring_submit(u);
        if (n >= 0 && io_uring_sq_ready(u) == 0)
            return true;
        if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY)
            return zt_fail(c->err, ZT_EXIT_DATA, "io_uring: %s", strerror(-n));
    }
}

/* Fills the queue with blocks. Nothing is added after an error. */
static bool fill(struct course *c) {
    struct ring *r = c->ring;
    const int64_t end = c->err->count ? c->next : c->span->bytes;
    if (!r->options.overlap_events && c->in_flight)
        return true;
    while (c->next < end && r->free) {
        struct request *q = r->free;
        r->free = q->next;
        q->first = c->next;
        q->bytes = end - c->next < r->options.block_size ? end - c->next : r->options.block_size;
        c->next += q->bytes;
        c->in_flight++;
        prepare(c, q);
        if (r->options.single_submit && !submit(c, 0))
            return false;
    }
    return true;
}

/* A request that moved a part, or nothing for now, is prepared again for the rest. */
static void complete(struct course *c, struct request *q, int moved) {
    const bool again = moved == -EINTR || moved == -EAGAIN;
    if (moved > 0 || again) {
        q->first += again ? 0 : moved;
        q->bytes -= again ? 0 : moved;
        if (q->bytes && !c->err->count) {
            prepare(c, q);
            return;
        }
    } else if (!c->err->count) {
        if (moved == 0)
            zt_aio_ended(c->span, q->first, c->err);
        else
            zt_aio_failed(c->span, q->first, -moved, c->err);
    }
    q->next = c->ring->free;
    c->ring->free = q;
    c->in_flight--;
}

static void reap(struct course *c) {
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&c->ring->uring, &cqe) == 0) {
        struct request *q = io_uring_cqe_get_data(cqe);
        const int moved = cqe->res;
        io_uring_cqe_seen(&c->ring->uring, cqe);
        complete(c, q, moved);
    }
}

static bool run(void *state, const struct zt_aio_span *span, struct zt_err *err) {
    struct course c = { .ring = state, .span = span, .err = err };
    const bool overlaps = c.ring->options.overlap_events;
    do {
        if (!fill(&c) || (c.in_flight && !submit(&c, overlaps ? 1 : c.in_flight)))
            return false;
        reap(&c);
    } while (c.in_flight || (c.next < span->bytes && !err->count));
    return err->count == 0;
}

static const struct zt_aio_engine engine = { "io_uring", workers, open_ring, run, close_ring };
const struct zt_aio_engine *const zt_aio_uring = &engine;
#else
const struct zt_aio_engine *const zt_aio_uring = NULL;
#endif
