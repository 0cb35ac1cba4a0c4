/* The reader threads and their ring of micro-batches. Micro-batches are numbered from the start; number n is in slot
 * n mod slots:
 *
 *     number     0 1 2 3 4 5 6 7
 *                    | |   |
 *                    | |   laid_out: samples are chosen for all before it
 *                    | written: all before it are full
 *                    released: the consumer has given back all before it; it holds at most `held` from here on
 *
 * A reader takes the next rows of `taking`, the first micro-batch that has rows left. A reader that finds none chooses
 * the samples of the next micro-batch, where a slot is free. So rows are taken in the order of delivery: when a row
 * cannot be read, all rows before it have been taken and will be read. The error that is delivered is the first in that
 * order, whatever the number of readers.
 *
 * A sleeping thread is woken when half of the read-ahead is ready for it, not for each micro-batch. Where a step takes
 * some microseconds, reader and consumer would otherwise switch a core with every micro-batch and leave little of it to
 * other programs (tests/launch/neighbours.py measures both). A consumer that has slept for LONG_S is woken for a single
 * micro-batch: then reading is slower than the step. */
#include "data/loader.h"

#include "base/align.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/thread.h"
#include "data/sampler.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECES = 4, /* of a micro-batch for each reader */
    LEAST_AHEAD = 2,
    MOST_AHEAD = 64,
    BYTES_AHEAD = 256 << 10, /* the depth exceeds LEAST_AHEAD up to this size */
};
static const double LONG_S = 100e-6;

struct slot {
    struct zt_batch batch;
    int64_t *index; /* sample number of each row */
    int64_t taken;  /* rows that readers have taken */
    int64_t left;   /* rows that are not read yet */
    bool full;
};

struct zt_loader {
    struct zt_loader_options options; /* with depth, readers and held in their ranges */
    struct zt_sampler sampler;        /* sampler and step belong to the thread that sets laying_out */
    struct step {
        int64_t at; /* number of the step, from 0 */
        int64_t samples, epoch, in_epoch;
        int64_t *indices;
        int64_t micro_batch; /* the next one; 0: the step's samples are not chosen yet */
    } step;
    size_t indices_bytes;
    struct slot *ring;
    int slots;
    void *memory; /* of all slots */
    size_t memory_bytes;

    pthread_t thread[ZT_READERS];
    int started;
    atomic_bool stop;
    pthread_mutex_t mutex; /* guards the members below, and `taken` and `left` of the slots */
    pthread_cond_t filled, work;
    int64_t laid_out, taking, written, delivered, released;
    double asleep_since; /* of the consumer; 0: it is awake */
    bool laying_out;     /* a reader chooses the samples of a micro-batch */
    int busy;            /* readers that read rows */
    bool failed;
    int64_t failed_at[2]; /* micro-batch and row of `err`, the first in order */
    struct zt_err err;
    double waited; /* seconds; of the consumer */
};

/* Rows of a micro-batch that a reader has taken. */
struct piece {
    int64_t number, first, end;
};

static int between(int least, int n, int most) {
    return n < least ? least : n < most ? n : most;
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int zt_loader_readers(int cores, int threads) {
    return between(1, cores - threads, ZT_READERS);
}

int zt_loader_depth(const struct zt_source *source, int64_t micro_batch) {
    double bytes = 0;
    for (int c = 0; c < source->column_count; c++)
        bytes += (double)source->column[c].sample_bytes * (double)micro_batch;
    double depth = BYTES_AHEAD / (bytes > 1 ? bytes : 1);
    return depth < LEAST_AHEAD ? LEAST_AHEAD : depth < MOST_AHEAD ? (int)depth : MOST_AHEAD;
}

static struct slot *slot_of(const struct zt_loader *l, int64_t number) {
    return &l->ring[number % l->slots];
}

/* ---- the samples of a micro-batch ---- */

/* One micro-batch of this rank: samples [first, first + samples) of the piece that starts at `start` of the step. */
struct cut {
    int64_t start, first, samples, rows;
};

static struct zt_epoch_piece piece_of(const struct zt_loader *l) {
    const struct zt_loader_options *o = &l->options;
    const struct step *s = &l->step;
    const int64_t span = o->micro_batch * o->ranks, first = s->micro_batch * span, left = s->samples - first;
    if (o->stream.carries)
        return zt_epochs_piece(&o->stream, o->first_step + s->at, s->micro_batch);
    return (struct zt_epoch_piece){ first, left < span ? left : span };
}

static struct cut cut_step(const struct zt_loader *l) {
    const struct zt_loader_options *o = &l->options;
    const struct zt_epoch_piece piece = piece_of(l);
    int64_t rows = (piece.samples + o->ranks - 1) / o->ranks, first = o->rank * rows, left = piece.samples - first;
    return (struct cut){ piece.first, first, left < 0 ? 0 : left < rows ? left : rows, rows };
}

static double weight_of(const struct zt_loader_options *o, const struct zt_batch *batch) {
    const struct zt_epochs *e = &o->stream;
    return e->carries ? (double)batch->step_samples / (double)(e->batch / e->unit * o->ranks) : (double)batch->samples;
}

/* Bytes of `rows` samples of a column, rounded up to the start of the next column. False where they overflow 64 bits.
 */
static bool column_bytes(const struct zt_source *source, int column, int64_t rows, size_t *bytes) {
    if (__builtin_mul_overflow(source->column[column].sample_bytes, (size_t)rows, bytes) || *bytes > SIZE_MAX - 63)
        return false;
    *bytes = zt_align_64(*bytes);
    return true;
}

/* make_ring() has checked that the columns fit. */
static void place_columns(const struct zt_source *source, struct zt_batch *batch) {
    char *at = batch->memory;
    for (int c = 0; c < source->column_count; c++) {
        size_t bytes = 0;
        batch->column[c] = at;
        column_bytes(source, c, batch->rows, &bytes);
        at += bytes;
    }
}

/* A rank with too few samples repeats the first sample of the step's part: real values with weight zero. */
static void fill_slot(const struct zt_loader *l, struct slot *slot) {
    const struct zt_loader_options *o = &l->options;
    const struct step *s = &l->step;
    struct cut cut = cut_step(l);
    struct zt_batch *batch = &slot->batch;
    batch->samples = cut.samples;
    batch->rows = cut.rows;
    batch->step = o->first_step + s->at;
    batch->epoch = s->epoch;
    batch->batch_in_epoch = s->in_epoch;
    batch->step_samples = s->samples;
    batch->weight = weight_of(o, batch);
    batch->micro_batch = (int)s->micro_batch;
    batch->first_in_epoch = zt_epochs_at(&l->sampler.epochs, batch->step).first + cut.start + cut.first;
    for (int64_t row = 0; row < cut.rows; row++)
        slot->index[row] = s->indices[cut.start + (row < cut.samples ? cut.first + row : 0)];
    batch->index = slot->index;
    if (!o->indices)
        place_columns(o->source, batch);
    slot->taken = 0;
    slot->left = cut.rows;
    slot->full = false;
}

/* Chooses the samples of the next micro-batch, without the mutex: the permutation of an epoch takes long. */
static void lay_out(struct zt_loader *l) {
    struct step *s = &l->step;
    struct slot *slot = slot_of(l, l->laid_out);
    l->laying_out = true;
    pthread_mutex_unlock(&l->mutex);
    if (s->micro_batch == 0)
        s->samples = zt_sampler_step(&l->sampler, l->options.first_step + s->at, s->indices, &s->epoch, &s->in_epoch);
    fill_slot(l, slot);
    const struct zt_epoch_piece piece = piece_of(l);
    pthread_mutex_lock(&l->mutex);
    s->micro_batch++;
    if (piece.first + piece.samples == s->samples) {
        s->micro_batch = 0;
        s->at++;
    }
    l->laying_out = false;
    l->laid_out++;
    pthread_cond_broadcast(&l->work);
}

/* ---- reading ---- */

static bool take(struct zt_loader *l, struct piece *piece) {
    if (l->taking == l->laid_out)
        return false;
    struct slot *slot = slot_of(l, l->taking);
    int64_t rows = slot->batch.rows, parts = (int64_t)l->options.readers * PIECES, most = (rows + parts - 1) / parts;
    int64_t end = slot->taken + most < rows ? slot->taken + most : rows;
    *piece = (struct piece){ l->taking, slot->taken, end };
    slot->taken = end;
    l->taking += end == rows;
    return true;
}

/* The sample of a row; a step of a stream goes on with the next epoch. */
static struct zt_sample sample_of(const struct zt_loader *l, const struct slot *slot, int64_t row) {
    const struct zt_epochs *e = &l->sampler.epochs;
    const int64_t passed = e->carries ? (slot->batch.first_in_epoch + row) / e->samples : 0;
    return (struct zt_sample){ slot->index[row], slot->batch.epoch + passed };
}

/* Reads the rows from piece->first on, and advances piece->first. */
static bool read_rows(struct zt_loader *l, const struct slot *slot, struct piece *piece, struct zt_err *err) {
    const struct zt_source *source = l->options.source;
    for (; !l->options.indices && piece->first < piece->end && !l->stop; piece->first++)
        for (int c = 0; c < source->column_count; c++) {
            char *to = (char *)slot->batch.column[c] + (size_t)piece->first * source->column[c].sample_bytes;
            if (!zt_source_read(source, c, sample_of(l, slot, piece->first), to, err))
                return false;
        }
    return true;
}

static void note_error(struct zt_loader *l, const struct piece *piece, const struct zt_err *err) {
    bool before =
        piece->number < l->failed_at[0] || (piece->number == l->failed_at[0] && piece->first < l->failed_at[1]);
    if (l->failed && !before)
        return;
    l->failed = true;
    l->failed_at[0] = piece->number;
    l->failed_at[1] = piece->first;
    l->err = *err;
    pthread_cond_broadcast(&l->work);
}

/* Advances `written` over the full micro-batches, and wakes the consumer where it should. */
static void publish(struct zt_loader *l) {
    while (l->written < l->taking && slot_of(l, l->written)->full)
        l->written++;
    if (l->failed || (l->asleep_since > 0 &&
                      (l->written - l->delivered >= l->options.depth / 2 || zt_now() - l->asleep_since >= LONG_S)))
        pthread_cond_signal(&l->filled);
}

static void wait_for_work(struct zt_loader *l) {
    if (l->asleep_since > 0)
        pthread_cond_signal(&l->filled);
    pthread_cond_wait(&l->work, &l->mutex);
}

/* The reader of the last rows of a micro-batch checks the files; only then is the micro-batch full. */
static bool count_rows(struct zt_loader *l, struct slot *slot, int64_t rows, struct zt_err *err) {
    slot->left -= rows;
    if (slot->left > 0)
        return true;
    pthread_mutex_unlock(&l->mutex);
    bool ok = l->options.indices || zt_source_intact(l->options.source, err);
    pthread_mutex_lock(&l->mutex);
    slot->full = ok;
    return ok;
}

/* A changed file may be the reason for a row that cannot be read: that error comes first. */
static void read_piece(struct zt_loader *l, struct piece piece, struct zt_err *err) {
    struct slot *slot = slot_of(l, piece.number);
    int64_t rows = piece.end - piece.first;
    l->busy++;
    pthread_mutex_unlock(&l->mutex);
    bool ok = read_rows(l, slot, &piece, err);
    if (!ok)
        zt_source_intact(l->options.source, err);
    pthread_mutex_lock(&l->mutex);
    if (!ok || !count_rows(l, slot, rows, err))
        note_error(l, &piece, err);
    l->busy--;
    publish(l);
}

static bool may_lay_out(const struct zt_loader *l) {
    return !l->laying_out && l->step.at < l->options.steps && l->laid_out - l->released < l->slots;
}

static void *reader(void *argument) {
    struct zt_loader *l = argument;
    struct zt_err *err = zt_calloc(1, sizeof *err);
    struct piece piece;
    pthread_mutex_lock(&l->mutex);
    while (!l->stop && !l->failed) {
        if (take(l, &piece))
            read_piece(l, piece, err);
        else if (may_lay_out(l))
            lay_out(l);
        else if (!l->laying_out && l->step.at == l->options.steps)
            break;
        else
            wait_for_work(l);
    }
    pthread_cond_signal(&l->filled);
    pthread_mutex_unlock(&l->mutex);
    free(err);
    return NULL;
}

/* ---- the ring ---- */

/* Bytes of one micro-batch. */
static bool slot_bytes(const struct zt_loader_options *o, size_t *total, struct zt_err *err) {
    *total = 0;
    for (int c = 0; !o->indices && c < o->source->column_count; c++) {
        size_t bytes;
        if (!column_bytes(o->source, c, o->micro_batch, &bytes) || __builtin_add_overflow(*total, bytes, total))
            return zt_fail(err, ZT_EXIT_DATA,
                           "data: column \"%s\": a micro-batch of %lld samples does not fit into memory",
                           o->source->column[c].name, (long long)o->micro_batch);
    }
    *total = *total > o->batch_bytes ? *total : zt_align_64(o->batch_bytes);
    return true;
}

/* Sample numbers: of a step, then of the micro-batches in the ring. */
static bool make_indices(struct zt_loader *l, struct zt_err *err) {
    const struct zt_loader_options *o = &l->options;
    int64_t *at, count;
    if (__builtin_mul_overflow(o->micro_batch, (int64_t)l->slots, &count) ||
        __builtin_add_overflow(o->train_batch, count, &count) ||
        __builtin_mul_overflow((size_t)count, sizeof *at, &l->indices_bytes))
        return zt_fail(err, ZT_EXIT_DATA, "data: a step of %lld samples does not fit into memory",
                       (long long)o->train_batch);
    l->step.indices = at = zt_block_create(l->indices_bytes, "the samples of a step", err);
    for (int s = 0; at && s < l->slots; s++)
        l->ring[s].index = at + o->train_batch + s * o->micro_batch;
    return at != NULL;
}

static bool make_ring(struct zt_loader *l, struct zt_err *err) {
    static const char what[] = "micro-batches read ahead";
    const struct zt_batch_memory *m = &l->options.memory;
    size_t each;
    if (!slot_bytes(&l->options, &each, err) || !make_indices(l, err))
        return false;
    if (__builtin_mul_overflow(each, (size_t)l->slots, &l->memory_bytes))
        return zt_fail(err, ZT_EXIT_DATA, "data: %d micro-batches of %zu bytes do not fit into memory", l->slots, each);
    l->memory =
        m->allocate ? m->allocate(m->with, l->memory_bytes, what, err) : zt_block_create(l->memory_bytes, what, err);
    for (int s = 0; l->memory && s < l->slots; s++)
        l->ring[s].batch.memory = (char *)l->memory + (size_t)s * each;
    return l->memory != NULL;
}

static void free_memory(struct zt_loader *l) {
    const struct zt_batch_memory *m = &l->options.memory;
    if (l->memory && m->allocate)
        m->free(m->with, l->memory, l->memory_bytes);
    else
        zt_block_destroy(l->memory, l->memory_bytes);
}

static bool start_readers(struct zt_loader *l, struct zt_err *err) {
    while (l->started < l->options.readers) {
        int failed = zt_thread_start(&l->thread[l->started], reader, l);
        if (failed)
            return zt_fail(err, ZT_EXIT_RUN, "data: the read-ahead thread cannot start: %s", strerror(failed));
        l->started++;
    }
    return true;
}

struct zt_loader *zt_loader_create(const struct zt_loader_options *options, struct zt_err *err) {
    struct zt_loader *l = zt_calloc(1, sizeof *l);
    l->options = *options;
    l->options.depth = between(LEAST_AHEAD, options->depth, INT_MAX);
    l->options.readers = between(1, options->readers, ZT_READERS);
    l->options.held = between(1, options->held, INT_MAX);
    l->slots = l->options.depth + l->options.held;
    l->ring = zt_calloc((size_t)l->slots, sizeof *l->ring);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->work, NULL);
    const struct zt_sampling sampling = { .samples = options->source->samples,
                                          .train_batch = options->train_batch,
                                          .shuffle = options->shuffle,
                                          .drop_last = options->drop_last,
                                          .seed = options->seed,
                                          .stream = options->stream };
    if (!options->stream.carries) { /* a step has at most all samples once */
        l->options.train_batch = lesser(options->train_batch, sampling.samples);
        l->options.micro_batch = lesser(options->micro_batch, sampling.samples);
    }
    if (zt_sampler_init(&l->sampler, &sampling, err) && make_ring(l, err) && start_readers(l, err))
        return l;
    zt_loader_destroy(l);
    return NULL;
}

/* ---- the consumer ---- */

/* Whether no further micro-batch will be full. */
static bool over(const struct zt_loader *l) {
    bool all = l->step.at >= l->options.steps && !l->laying_out && l->written == l->laid_out;
    return all || (l->failed && l->busy == 0);
}

static void release(struct zt_loader *l) {
    if (l->delivered - l->released < l->options.held)
        return;
    l->released++;
    if (l->slots - (l->laid_out - l->released) >= l->options.depth / 2)
        pthread_cond_signal(&l->work);
}

/* Waits for a micro-batch, or for the end. */
static void await_batch(struct zt_loader *l) {
    if (l->written > l->delivered || over(l))
        return;
    l->asleep_since = zt_now();
    pthread_cond_broadcast(&l->work);
    while (l->written == l->delivered && !over(l))
        pthread_cond_wait(&l->filled, &l->mutex);
    l->asleep_since = 0;
}

double zt_loader_waited(const struct zt_loader *l) {
    return l->waited;
}

bool zt_loader_next(struct zt_loader *l, const struct zt_batch **batch, struct zt_err *err) {
    const double before = zt_now();
    pthread_mutex_lock(&l->mutex);
    release(l);
    await_batch(l);
    bool more = l->written > l->delivered, failed = !more && l->failed;
    *batch = more ? &slot_of(l, l->delivered++)->batch : NULL;
    pthread_mutex_unlock(&l->mutex);
    l->waited += zt_now() - before;
    if (failed)
        *err = l->err;
    return !failed;
}

void zt_loader_destroy(struct zt_loader *l) {
    if (!l)
        return;
    pthread_mutex_lock(&l->mutex);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < l->started; i++)
        pthread_join(l->thread[i], NULL);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->mutex);
    zt_sampler_finish(&l->sampler);
    zt_block_destroy(l->step.indices, l->indices_bytes);
    free_memory(l);
    free(l->ring);
    free(l);
}
