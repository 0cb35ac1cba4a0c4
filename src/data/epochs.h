/* Steps and epochs: where in the epochs a step stands. */
#ifndef ZT_DATA_EPOCHS_H
#define ZT_DATA_EPOCHS_H

#include "config/config.h"

/* Either the last step of an epoch is smaller (or left out with drop_last), or a step that reaches the end of an epoch
 * goes on with the next one, as a loop over DeepSpeed's data loader accumulates: its micro-batches are a stream. In a
 * stream each epoch is repeated from its beginning up to a multiple of the ranks (torch's DistributedSampler). Its last
 * micro-batch may have fewer samples; with drop_last it ends with the last full one. Of 5 samples in micro-batches of
 * 2, two of them a step:
 *
 *     epoch              0           1
 *     sample         0 1 2 3 4   0 1 2 3 4
 *     micro-batch    0 0 1 1 2   3 3 4 4 5
 *     step           0 0 0 0 1   1 1 2 2 2        */
struct zt_epochs {
    int64_t samples; /* of an epoch, as far as steps take them */
    int64_t batch;   /* samples of a full step */
    bool carries;
    int64_t unit; /* of a stream: samples of a full micro-batch on all ranks, a part of `batch` */
};

/* The place of a step. */
struct zt_epoch_place {
    int64_t epoch; /* of its first sample */
    int64_t batch; /* number of earlier steps that begin in this epoch */
    int64_t first; /* index of its first sample in the epoch */
};

/* Of the training data, which have `samples` samples. */
struct zt_epochs zt_epochs_of(const struct zt_config *config, int64_t samples);
struct zt_epoch_place zt_epochs_at(const struct zt_epochs *e, int64_t step);
/* Samples of a step on all ranks. */
int64_t zt_epochs_samples(const struct zt_epochs *e, int64_t step);
/* Micro-batch `micro_batch` of a step of a stream: its samples on all ranks, and those before it in the step. */
struct zt_epoch_piece {
    int64_t first, samples;
};
struct zt_epoch_piece zt_epochs_piece(const struct zt_epochs *e, int64_t step, int64_t micro_batch);
/* Steps that begin in the first epoch. */
int64_t zt_epochs_batches(const struct zt_epochs *e);
/* Epochs that have ended after `steps` steps. */
int64_t zt_epochs_ended(const struct zt_epochs *e, int64_t steps);
/* Steps of `epochs` epochs. Samples left over at the end of a stream make no step. */
int64_t zt_epochs_steps(const struct zt_epochs *e, int64_t epochs);

#endif
