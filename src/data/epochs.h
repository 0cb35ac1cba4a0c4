/* Steps and epochs: where in the epochs a step stands. */
#ifndef ZT_DATA_EPOCHS_H
#define ZT_DATA_EPOCHS_H

#include "config/config.h"

/* Either the last step of an epoch is smaller (or left out with drop_last), or a step that reaches the end of an epoch
 * goes on with the next one, as a loop over DeepSpeed's data loader accumulates: its samples are a stream. In a stream
 * each epoch is repeated from its beginning up to a multiple of the ranks (torch's DistributedSampler); with drop_last
 * it ends with the last full micro-batch. */
struct zt_epochs {
    int64_t samples; /* of an epoch, as far as steps take them */
    int64_t batch;   /* samples of a full step */
    bool carries;
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
/* Steps that begin in the first epoch. */
int64_t zt_epochs_batches(const struct zt_epochs *e);
/* Epochs that have ended after `steps` steps. */
int64_t zt_epochs_ended(const struct zt_epochs *e, int64_t steps);
/* Steps of so many epochs. What is left of a stream makes no step. */
int64_t zt_epochs_steps(const struct zt_epochs *e, int64_t epochs);

#endif
