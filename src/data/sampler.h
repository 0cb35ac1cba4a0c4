/* The order of the samples: which of them make each step. */
#ifndef ZT_DATA_SAMPLER_H
#define ZT_DATA_SAMPLER_H

#include "data/data.h"
#include "data/epochs.h"

/* The sampler chooses the samples of each step. An epoch is a permutation by (seed, epoch), the identity without
 * shuffle. Batch b of an epoch has the permuted samples [b*train_batch, (b+1)*train_batch); the last batch is smaller,
 * or left out with drop_last. In a stream (struct zt_epochs) it goes on with the next epoch. Epochs go on until the
 * number of steps is reached. */
struct zt_sampler {
    int64_t samples;
    struct zt_epochs epochs;
    bool shuffle;
    uint64_t seed;
    int64_t epoch;  /* of the permutation in `order`; -1: none yet */
    int64_t *order; /* samples entries; NULL without shuffle */
};
struct zt_sampling {
    int64_t samples, train_batch;
    bool shuffle, drop_last;
    uint64_t seed;
    struct zt_epochs stream; /* carries false: no stream */
};
/* The sampling of a run on the training data `source`. */
struct zt_sampling zt_sampling_of(const struct zt_config *config, const struct zt_source *source);
/* Fails where the data have no sample, or with drop_last no full step or micro-batch. Finish it with
 * zt_sampler_finish(). */
bool zt_sampler_init(struct zt_sampler *s, const struct zt_sampling *how, struct zt_err *err);
void zt_sampler_finish(struct zt_sampler *s);
/* Writes the sample numbers of step `step`, from 0 on, to `indices` (train_batch entries) and returns their number.
 * Sets the epoch, and the index of the step in the epoch. */
int64_t zt_sampler_step(struct zt_sampler *s, int64_t step, int64_t *indices, int64_t *epoch, int64_t *batch);

#endif
