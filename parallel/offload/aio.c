#include "parallel/offload/aio.h"

#include "base/arena.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each worker has a queue of its own, which holds every transfer that it has not reached yet. */
struct worker {
    struct zt_aio *aio;
    pthread_t thread;
    bool started;
    int index;
    void *state;                    /* of the engine */
    struct zt_aio_transfer **queue; /* ring of ROOM transfers */
    int first, count;
};

enum {
    ROOM = 64, /* transfers under way; zt_aio_start() waits for room */
    MOST_BLOCK = 1 << 30,
};

struct zt_aio {
    struct zt_aio_options options;
    const struct zt_aio_engine *engine;
    char name[96];
    struct worker *workers;
    int count, open;
    bool ends;
    pthread_mutex_t mutex; /* guards the queues, `ends`, and `pending` and `err` of transfers */
    pthread_cond_t work, done;
};

/* The span of worker `index`: whole blocks, except for the end of the transfer. */
static struct zt_aio_span span_of(const struct zt_aio *aio, const struct zt_aio_transfer *t, int index) {
    const int64_t block = aio->options.block_size, blocks = (t->bytes + block - 1) / block;
    int64_t first = blocks * index / aio->count * block, last = blocks * (index + 1) / aio->count * block;
    last = last < t->bytes ? last : t->bytes;
    return (struct zt_aio_span){ t->file, t->writes, t->at + first, t->offset + first,
                                 last > first ? last - first : 0 };
}

static struct zt_aio_transfer *take(struct worker *w) {
    struct zt_aio *aio = w->aio;
    struct zt_aio_transfer *t = NULL;
    pthread_mutex_lock(&aio->mutex);
    while (!w->count && !aio->ends)
        pthread_cond_wait(&aio->work, &aio->mutex);
    if (w->count) {
        t = w->queue[w->first];
        w->first = (w->first + 1) % ROOM;
        w->count--;
    }
    pthread_mutex_unlock(&aio->mutex);
    return t;
}

static void finish_span(struct zt_aio *aio, struct zt_aio_transfer *t, const struct zt_err *err) {
    pthread_mutex_lock(&aio->mutex);
    if (err->count && !t->err.count)
        t->err = *err;
    t->pending--;
    pthread_cond_broadcast(&aio->done);
    pthread_mutex_unlock(&aio->mutex);
}

static void *work(void *arg) {
    struct worker *w = arg;
    struct zt_aio_transfer *t;
    while ((t = take(w))) {
        const struct zt_aio_span span = span_of(w->aio, t, w->index);
        struct zt_err err = { 0 };
        if (span.bytes)
            w->aio->engine->run(w->state, &span, &err);
        finish_span(w->aio, t, &err);
    }
    return NULL;
}

/* ---- creation ---- */

static void close_states(struct zt_aio *aio) {
    for (; aio->open > 0; aio->open--)
        aio->engine->close(aio->workers[aio->open - 1].state);
    free(aio->workers);
    aio->workers = NULL;
}

static bool open_states(struct zt_aio *aio, const struct zt_aio_engine *engine, struct zt_err *err) {
    aio->engine = engine;
    aio->count = engine->workers(&aio->options);
    aio->workers = zt_calloc((size_t)aio->count, sizeof *aio->workers);
    for (int i = 0; i < aio->count; i++) {
        struct worker *w = &aio->workers[i];
        *w = (struct worker){ .aio = aio, .index = i, .state = engine->open(&aio->options, err) };
        if (!w->state) {
            close_states(aio);
            return false;
        }
        aio->open++;
    }
    return true;
}

static bool choose(struct zt_aio *aio, const struct zt_aio_engine *engine, struct zt_err *err) {
    struct zt_err why = { 0 };
    if (engine) {
        snprintf(aio->name, sizeof aio->name, "%s", engine->name);
        return open_states(aio, engine, err);
    }
    if (zt_aio_uring && open_states(aio, zt_aio_uring, &why)) {
        snprintf(aio->name, sizeof aio->name, "%s", zt_aio_uring->name);
        return true;
    }
    snprintf(aio->name, sizeof aio->name, "%s (%.64s)", zt_aio_threads.name,
             zt_aio_uring ? why.text[0] : "built without io_uring");
    return open_states(aio, &zt_aio_threads, err);
}

static bool start_workers(struct zt_aio *aio, struct zt_err *err) {
    for (int i = 0; i < aio->count; i++) {
        struct worker *w = &aio->workers[i];
        w->queue = zt_calloc(ROOM, sizeof(struct zt_aio_transfer *));
        if (zt_thread_start(&w->thread, work, w) != 0)
            return zt_fail(err, ZT_EXIT_RUN, "cannot start a thread for transfers to files");
        w->started = true;
    }
    return true;
}

struct zt_aio *zt_aio_create(const struct zt_aio_options *options, const struct zt_aio_engine *engine,
                             struct zt_err *err) {
    struct zt_aio *aio = zt_calloc(1, sizeof *aio);
    aio->options = *options;
    const int64_t block = options->block_size < MOST_BLOCK ? options->block_size : MOST_BLOCK;
    aio->options.block_size = (block + ZT_AIO_ALIGN - 1) / ZT_AIO_ALIGN * ZT_AIO_ALIGN;
    pthread_mutex_init(&aio->mutex, NULL);
    pthread_cond_init(&aio->work, NULL);
    pthread_cond_init(&aio->done, NULL);
    if (choose(aio, engine, err) && start_workers(aio, err))
        return aio;
    zt_aio_destroy(aio);
    return NULL;
}

void zt_aio_destroy(struct zt_aio *aio) {
    if (!aio)
        return;
    pthread_mutex_lock(&aio->mutex);
    aio->ends = true;
    pthread_cond_broadcast(&aio->work);
    pthread_mutex_unlock(&aio->mutex);
    for (int i = 0; aio->workers && i < aio->count; i++) {
        if (aio->workers[i].started)
            pthread_join(aio->workers[i].thread, NULL);
        free(aio->workers[i].queue);
    }
    if (aio->workers)
        close_states(aio);
    pthread_cond_destroy(&aio->done);
    pthread_cond_destroy(&aio->work);
    pthread_mutex_destroy(&aio->mutex);
    free(aio);
}

const char *zt_aio_name(const struct zt_aio *aio) {
    return aio->name;
}

/* ---- transfers ---- */

static bool has_room(const struct zt_aio *aio) {
    for (int i = 0; i < aio->count; i++)
        if (aio->workers[i].count == ROOM)
            return false;
    return true;
}

void zt_aio_start(struct zt_aio *aio, struct zt_aio_transfer *t) {
    t->err = (struct zt_err){ 0 };
    pthread_mutex_lock(&aio->mutex);
    while (!has_room(aio))
        pthread_cond_wait(&aio->done, &aio->mutex);
    t->pending = aio->count;
    for (int i = 0; i < aio->count; i++) {
        struct worker *w = &aio->workers[i];
        w->queue[(w->first + w->count++) % ROOM] = t;
    }
    pthread_cond_broadcast(&aio->work);
    pthread_mutex_unlock(&aio->mutex);
}

bool zt_aio_wait(struct zt_aio *aio, struct zt_aio_transfer *t, struct zt_err *err) {
    pthread_mutex_lock(&aio->mutex);
    while (t->pending)
        pthread_cond_wait(&aio->done, &aio->mutex);
    pthread_mutex_unlock(&aio->mutex);
    return !t->err.count || zt_fail(err, t->err.code, "%s: %s", t->path, t->err.text[0]);
}
