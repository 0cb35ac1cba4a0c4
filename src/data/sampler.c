#include "data/sampler.h"

#include "base/arena.h"
#include "base/process_memory.h"
#include "base/rng.h"
#include "base/text.h"

/* Separates the random numbers of the shuffle from other uses of the seed. */
static const uint64_t shuffle_tag = 0x73687566666c65; /* "shuffle" */

struct zt_sampling zt_sampling_of(const struct zt_config *config, const struct zt_source *source) {
    struct zt_epochs epochs = zt_epochs_of(config, source->samples);
    return (struct zt_sampling){ .samples = source->samples,
                                 .train_batch = config->train_batch,
                                 .shuffle = config->data.shuffle,
                                 .drop_last = config->data.drop_last,
                                 .seed = (uint64_t)config->seed,
                                 .stream = epochs };
}

static struct zt_epochs epochs_of(const struct zt_sampling *how) {
    int64_t rest = how->drop_last ? how->samples % how->train_batch : 0;
    return how->stream.carries ? how->stream
                               : (struct zt_epochs){ .samples = how->samples - rest, .batch = how->train_batch };
}

bool zt_sampler_init(struct zt_sampler *s, const struct zt_sampling *how, struct zt_err *err) {
    int64_t samples = how->samples;
    *s = (struct zt_sampler){
        .samples = samples, .epochs = epochs_of(how), .shuffle = how->shuffle, .seed = how->seed, .epoch = -1
    };
    int64_t bytes = 0;
    if (samples < 1)
        return zt_fail(err, ZT_EXIT_DATA, "data: no samples");
    if (s->epochs.samples == 0) {
        zt_fail(err, ZT_EXIT_DATA, "data: %lld samples do not fill one step of %lld, and drop_last drops smaller ones",
                (long long)samples, (long long)how->train_batch);
        return zt_hint(err, "lower train_batch_size or set ztrain.data.drop_last to false");
    }
    /* The system may promise more memory than there is, and end the process when it is used. */
    const int64_t memory = zt_host_memory_bytes();
    if (how->shuffle &&
        (__builtin_mul_overflow(samples, (int64_t)sizeof *s->order, &bytes) || (memory && bytes > memory))) {
        char text[32];
        zt_fail(err, ZT_EXIT_DATA, "data: the order of %lld samples does not fit into the memory of this host, %s",
                (long long)samples, zt_format_bytes(text, (double)memory));
        return zt_hint(err, "ztrain.data.shuffle false needs no order");
    }
    if (how->shuffle)
        s->order = zt_block_create((size_t)bytes, "the order of the samples", err);
    return !how->shuffle || s->order;
}

void zt_sampler_finish(struct zt_sampler *s) {
    zt_block_destroy(s->order, (size_t)s->samples * sizeof *s->order);
    *s = (struct zt_sampler){ 0 };
}

/* The shuffle of Fisher and Yates: every permutation is equally likely. */
static void shuffle_epoch(struct zt_sampler *s, int64_t epoch) {
    struct zt_rng rng = zt_rng_start(zt_rng_key(s->seed, (uint64_t)epoch, shuffle_tag, 0), 0);
    for (int64_t i = 0; i < s->samples; i++)
        s->order[i] = i;
    for (int64_t i = s->samples - 1; i > 0; i--) {
        int64_t j = (int64_t)zt_rng_below(&rng, (uint64_t)i + 1), swapped = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = swapped;
    }
    s->epoch = epoch;
}

/* Sample `at` of the epoch; a stream's epoch is longer than the data by less than the ranks. */
static int64_t sample_at(struct zt_sampler *s, int64_t epoch, int64_t at) {
    if (s->shuffle && s->epoch != epoch)
        shuffle_epoch(s, epoch);
    at %= s->samples;
    return s->shuffle ? s->order[at] : at;
}

int64_t zt_sampler_step(struct zt_sampler *s, int64_t step, int64_t *indices, int64_t *epoch, int64_t *batch) {
    const struct zt_epochs *e = &s->epochs;
    struct zt_epoch_place place = zt_epochs_at(e, step);
    const int64_t count = zt_epochs_samples(e, step);
    *epoch = place.epoch;
    *batch = place.batch;
    for (int64_t i = 0; i < count; i++, place.first++) {
        if (place.first == e->samples) {
            place.first = 0;
            place.epoch++;
        }
        indices[i] = sample_at(s, place.epoch, place.first);
    }
    return count;
}
