/* The steps of a rank: how samples are divided into micro-batches, and the schedules that run them. */
#ifndef ZT_PLAN_RANK_STEPS_H
#define ZT_PLAN_RANK_STEPS_H

#include "data/epochs.h"
#include "parallel/schedule/schedule.h"

/* Division of the samples of one step (data/loader.h, zt_loader_create). */
struct zt_step_shape {
    int64_t samples;         /* of all ranks; 0: there is no such step */
    int micro_batches;       /* of each rank */
    int64_t rows, last_rows; /* samples of a micro-batch, and of the last one */
    bool padded;             /* the last micro-batch of some rank has padding samples */
    bool stream;             /* of a stream (data/epochs.h), whose step `step` has the shape */
    int64_t step;
};

struct zt_rank_steps {
    struct zt_epochs epochs;
    int data_ranks;
    struct zt_step_shape full, tail; /* of a stream: of a step whose micro-batches are all full; none */
    int64_t short_rows;              /* of a stream: samples of the last micro-batch of an epoch on a rank; 0: full */
    int64_t eval_samples;            /* of an evaluation */
    int64_t eval_rows; /* samples of an evaluation micro-batch: the config's, or fewer under a memory limit */
    struct zt_schedule full_schedule, tail_schedule; /* tail: count 0 if there is no smaller last step */
    struct zt_schedule eval_schedule;                /* for one micro-batch */
    int slots;                                       /* micro-batches in flight, each with its own activations */
    bool keeps_input; /* slots copy the input columns, because the loader reuses its memory before the backward phase
                         reads them */
};

/* Divides `samples` among `data_ranks` ranks in micro-batches of at most `micro_batch` samples. */
struct zt_step_shape zt_step_shape(int64_t samples, int64_t micro_batch, int data_ranks);
/* Returns the shape of step `step`. */
struct zt_step_shape zt_rank_shape(const struct zt_rank_steps *steps, int64_t step);
/* Returns the samples of a micro-batch of a step of a shape: on one rank, with padding; before it in the step, on all
 * ranks; and of the loss over all replicas in mode dp. */
int64_t zt_rank_rows(const struct zt_rank_steps *steps, const struct zt_step_shape *shape, int micro_batch);
int64_t zt_rank_rows_before(const struct zt_rank_steps *steps, const struct zt_step_shape *shape, int micro_batch);
int64_t zt_rank_loss_rows(const struct zt_rank_steps *steps, const struct zt_step_shape *shape, int micro_batch);

#endif
