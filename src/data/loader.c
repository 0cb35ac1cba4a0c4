/* The read-ahead thread and its ring. `written` micro-batches have been filled and `released` given back since the
 * start; the reader fills slot written mod slots while written - released < slots. The consumer holds micro-batch
 * number `released` between two calls of zt_loader_next(), so the ring has one slot more than are read ahead.
 *
 * Whoever sleeps is woken when half of the ring is there for it, not for each micro-batch: where a step takes some
 * microseconds, reader and consumer would otherwise switch a core between each other two hundred thousand times a
 * second, and the scheduler was seen to run nothing else on that core for half a minute. A consumer that has slept for
 * LONG_S is woken for a single micro-batch: reading is what takes time then. */
#include "data/data.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 64,
    LEAST_AHEAD = 2,
    MOST_AHEAD = 64,
    BYTES_AHEAD = 256 << 10, /* up to which more than the least are read ahead */
};
static const double LONG_S = 100e-6;

struct zt_loader {
    struct zt_loader_options options;
    struct zt_sampler sampler;
    int64_t *indices; /* of the step being read */
    size_t indices_bytes;
    struct zt_batch *ring;
    int slots;
    void *memory; /* the columns of all slots */
    size_t memory_bytes;
    double waited;
    bool holds; /* the consumer has a micro-batch */

    pthread_t thread;
    bool started;
    atomic_bool stop;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t filled, freed;
    int64_t written, released;
    double asleep_since; /* the consumer; 0: it is awake */
    bool ended, failed;
    struct zt_err err;
};

/* One micro-batch of this rank: samples [first, first + samples) of the piece that starts at `start` of the step. */
struct cut {
    int64_t start, first, samples, rows;
};

static struct cut cut_step(const struct zt_loader_options *o, int64_t step_samples, int64_t micro_batch) {
    int64_t span = o->micro_batch * o->ranks, start = micro_batch * span;
    int64_t piece = step_samples - start < span ? step_samples - start : span;
    int64_t rows = (piece + o->ranks - 1) / o->ranks, first = o->rank * rows, left = piece - first;
    return (struct cut){ start, first, left < 0 ? 0 : left < rows ? left : rows, rows };
}

/* The next free slot, NULL when the loader is being destroyed. */
static struct zt_batch *wait_for_slot(struct zt_loader *l) {
    pthread_mutex_lock(&l->mutex);
    while (l->written - l->released >= l->slots && !l->stop)
        pthread_cond_wait(&l->freed, &l->mutex);
    struct zt_batch *batch = l->stop ? NULL : &l->ring[l->written % l->slots];
    pthread_mutex_unlock(&l->mutex);
    return batch;
}

/* With the mutex. At least one, also of the shortest ring. */
static int64_t half_of_ring(const struct zt_loader *l) {
    return (l->slots - 1) / 2;
}

static bool reader_is_due(const struct zt_loader *l) {
    return l->slots - (l->written - l->released) >= half_of_ring(l);
}

static bool consumer_is_due(const struct zt_loader *l) {
    return l->asleep_since > 0 && (l->written - l->released >= half_of_ring(l) || zt_now() - l->asleep_since >= LONG_S);
}

static void publish(struct zt_loader *l) {
    pthread_mutex_lock(&l->mutex);
    l->written++;
    bool due = consumer_is_due(l);
    pthread_mutex_unlock(&l->mutex);
    if (due)
        pthread_cond_signal(&l->filled);
}

/* Rows of a rank whose piece is short are filled with the first sample of the piece: real values, weight zero. */
static bool read_rows(struct zt_loader *l, struct zt_batch *batch, const struct cut *cut, struct zt_err *err) {
    const struct zt_source *source = l->options.source;
    for (int64_t row = 0; row < cut->rows && !l->stop; row++) {
        int64_t index = l->indices[cut->start + (row < cut->samples ? cut->first + row : 0)];
        for (int c = 0; c < source->column_count; c++) {
            char *to = (char *)batch->column[c] + (size_t)row * source->column[c].sample_bytes;
            if (!source->format->read(source, c, index, to, err))
                return false;
        }
    }
    return true;
}

static bool read_step(struct zt_loader *l, int64_t step, struct zt_err *err) {
    const struct zt_loader_options *o = &l->options;
    int64_t epoch, in_epoch, count = zt_sampler_step(&l->sampler, step, l->indices, &epoch, &in_epoch);
    int64_t span = o->micro_batch * o->ranks;
    for (int64_t m = 0; m * span < count; m++) {
        struct cut cut = cut_step(o, count, m);
        struct zt_batch *batch = wait_for_slot(l);
        if (!batch)
            return true;
        batch->samples = cut.samples;
        batch->rows = cut.rows;
        batch->step = step;
        batch->epoch = epoch;
        batch->batch_in_epoch = in_epoch;
        batch->step_samples = count;
        batch->micro_batch = (int)m;
        batch->first_in_epoch = in_epoch * o->train_batch + cut.start + cut.first;
        bool ok = read_rows(l, batch, &cut, err);
        if (o->source->format->intact && !o->source->format->intact(o->source, err))
            return false; /* whatever the rows said */
        if (!ok)
            return false;
        publish(l);
    }
    return true;
}

static void *reader(void *argument) {
    struct zt_loader *l = argument;
    struct zt_err *err = zt_calloc(1, sizeof *err);
    bool ok = true;
    for (int64_t i = 0; i < l->options.steps && ok && !l->stop; i++)
        ok = read_step(l, l->options.first_step + i, err);
    pthread_mutex_lock(&l->mutex);
    l->ended = true;
    l->failed = !ok;
    l->err = *err;
    pthread_cond_signal(&l->filled);
    pthread_mutex_unlock(&l->mutex);
    free(err);
    return NULL;
}

/* Bytes a micro-batch of a column takes in the ring; 0 where 64 bits do not hold them. */
static size_t column_bytes(const struct zt_loader_options *o, int column) {
    size_t bytes;
    if (__builtin_mul_overflow(o->source->column[column].sample_bytes, (size_t)o->micro_batch, &bytes) ||
        __builtin_add_overflow(bytes, ALIGN, &bytes))
        return 0;
    return bytes / ALIGN * ALIGN;
}

static bool ring_bytes(const struct zt_loader *l, size_t *total, struct zt_err *err) {
    const struct zt_loader_options *o = &l->options;
    *total = 0;
    for (int c = 0; c < o->source->column_count; c++) {
        size_t bytes = column_bytes(o, c), all;
        if (bytes == 0 || __builtin_mul_overflow(bytes, (size_t)l->slots, &all) ||
            __builtin_add_overflow(*total, all, total))
            return zt_fail(err, ZT_EXIT_DATA, "data: column \"%s\": a micro-batch of %lld samples fits no memory",
                           o->source->column[c].name, (long long)o->micro_batch);
    }
    return true;
}

static bool make_ring(struct zt_loader *l, struct zt_err *err) {
    const struct zt_loader_options *o = &l->options;
    if (__builtin_mul_overflow((size_t)o->train_batch, sizeof *l->indices, &l->indices_bytes) ||
        !ring_bytes(l, &l->memory_bytes, err))
        return false;
    l->indices = zt_block_create(l->indices_bytes, "the samples of a step", err);
    l->memory = zt_block_create(l->memory_bytes, "micro-batches read ahead", err);
    if (!l->indices || !l->memory)
        return false;
    char *at = l->memory;
    for (int s = 0; s < l->slots; s++)
        for (int c = 0; c < o->source->column_count; c++) {
            l->ring[s].column[c] = at;
            at += column_bytes(o, c);
        }
    return true;
}

static bool start_reader(struct zt_loader *l, struct zt_err *err) {
    int failed = zt_thread_start(&l->thread, reader, l);
    l->started = failed == 0;
    return l->started || zt_fail(err, ZT_EXIT_RUN, "data: the read-ahead thread cannot start: %s", strerror(failed));
}

int zt_loader_depth(const struct zt_source *source, int64_t micro_batch) {
    double bytes = 0;
    for (int c = 0; c < source->column_count; c++)
        bytes += (double)source->column[c].sample_bytes * (double)micro_batch;
    double depth = BYTES_AHEAD / (bytes > 1 ? bytes : 1);
    return depth < LEAST_AHEAD ? LEAST_AHEAD : depth < MOST_AHEAD ? (int)depth : MOST_AHEAD;
}

struct zt_loader *zt_loader_create(const struct zt_loader_options *options, struct zt_err *err) {
    struct zt_loader *l = zt_calloc(1, sizeof *l);
    l->options = *options;
    l->slots = (options->depth < LEAST_AHEAD ? LEAST_AHEAD : options->depth) + 1;
    l->ring = zt_calloc((size_t)l->slots, sizeof *l->ring);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    if (zt_sampler_init(&l->sampler, options->source->samples, options->train_batch, options->shuffle,
                        options->drop_last, options->seed, err) &&
        make_ring(l, err) && start_reader(l, err))
        return l;
    zt_loader_destroy(l);
    return NULL;
}

/* With the mutex, until there is a micro-batch or the end. */
static void await_batch(struct zt_loader *l) {
    if (l->written > l->released || l->ended)
        return;
    double start = l->asleep_since = zt_now();
    while (l->written == l->released && !l->ended)
        pthread_cond_wait(&l->filled, &l->mutex);
    l->asleep_since = 0;
    l->waited += zt_now() - start;
}

/* With the mutex. */
static void release(struct zt_loader *l) {
    if (!l->holds)
        return;
    l->released++;
    l->holds = false;
}

bool zt_loader_next(struct zt_loader *l, const struct zt_batch **batch, struct zt_err *err) {
    pthread_mutex_lock(&l->mutex);
    release(l);
    if (reader_is_due(l))
        pthread_cond_signal(&l->freed);
    await_batch(l);
    l->holds = l->written > l->released;
    *batch = l->holds ? &l->ring[l->released % l->slots] : NULL;
    bool failed = !l->holds && l->failed;
    pthread_mutex_unlock(&l->mutex);
    if (failed)
        *err = l->err;
    return !failed;
}

double zt_loader_waited(const struct zt_loader *l) {
    return l->waited;
}

void zt_loader_destroy(struct zt_loader *l) {
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->mutex);
        l->stop = true;
        pthread_cond_broadcast(&l->freed);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->mutex);
    zt_sampler_finish(&l->sampler);
    zt_block_destroy(l->indices, l->indices_bytes);
    zt_block_destroy(l->memory, l->memory_bytes);
    free(l->ring);
    free(l);
}
