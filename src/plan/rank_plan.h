/* The plan of one rank: its programs, slices, schedules and memory. Planning is pure: the same inputs give the same
 * plan on every machine. `ztrain plan` makes and prints it. */
#ifndef ZT_PLAN_RANK_PLAN_H
#define ZT_PLAN_RANK_PLAN_H

#include "data/epochs.h"
#include "device/device.h"
#include "optim/matrix.h"
#include "parallel/comm/compressed.h"
#include "parallel/partition/grid.h"
#include "parallel/schedule/collectives.h"
#include "parallel/schedule/frozen_weights.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/schedule.h"
#include "parallel/schedule/tied_weights.h"
#include "plan/job/frozen.h"
#include "plan/job/job.h"
#include "plan/offload.h"

/* How the samples of one step are divided (data/loader.h, zt_loader_create). */
struct zt_step_shape {
    int64_t samples;         /* of all ranks; 0: there is no such step */
    int micro_batches;       /* of each rank */
    int64_t rows, last_rows; /* samples of a micro-batch, and of the last one */
    bool padded;             /* the last micro-batch of some rank has padding samples */
    bool stream;             /* of a stream (data/epochs.h), whose step `step` has the shape */
    int64_t step;
};
/* Divides `samples` among `data_ranks` ranks in micro-batches of at most `micro_batch` samples. */
struct zt_step_shape zt_step_shape(int64_t samples, int64_t micro_batch, int data_ranks);

/* Programs for every micro-batch size, for training or evaluation. */
struct zt_program_set {
    struct zt_program **at;
    int count;
};

/* A trained tensor or statistic of the whole model. */
struct zt_model_tensor {
    const char *name;
    struct zt_shape shape;
    int stage; /* the first stage that holds it */
};

struct zt_rank_plan {
    struct zt_arena *arena;
    const struct zt_job *job;
    const struct zt_source *source, *eval_source; /* borrowed; NULL: none */
    struct zt_epochs epochs;
    int64_t eval_samples; /* of an evaluation */
    int64_t eval_rows;    /* samples of an evaluation micro-batch: the config's, or fewer under a memory limit */
    struct zt_grid grid;
    const struct zt_sharding *sharding;
    struct zt_traffic traffic;
    /* What "auto" became, in elements: the hidden size, the largest bucket, and the most that every rank holds whole of
     * one parameter and in all. */
    int64_t hidden, largest_bucket, persistent_each, persistent_together;
    struct zt_stage_bounds *stage_bounds; /* bounds of the stages, the same for all programs */
    struct zt_flat *flat;
    struct zt_frozen_layout *frozen;        /* frozen weights that the data-parallel ranks share out; NULL: none */
    struct zt_frozen_source *frozen_source; /* by tensor of it */
    int64_t *frozen_elems;                  /* the same: elements of the weight's type */
    struct zt_tie_run *ties;                /* tied weights of several stages */
    int tie_count;
    int64_t statistic_bytes, *statistic_offset, *statistic_count; /* statistics of this stage; counts in elements */
    const char **statistic_name;
    struct zt_matrix *matrices; /* by tensor of `flat`: those that the optimizer updates as matrices; rows 0: others */
    const void **statistic_initial, **param_initial; /* contents in the model file; parameters in the order of `flat` */
    int statistic_total;
    /* Trained tensors of the whole model, then its statistics, in the order of the model. The same in every layout. */
    struct zt_model_tensor *model;
    int model_count, model_params;      /* number of all, and of the trained ones at the front */
    int *param_model, *statistic_model; /* index in `model` of this stage's parameters and statistics */
    struct zt_program_set train, evaluation;
    /* Mode dp: the loss of the samples of all replicas, on rank 0 (chunk 1 of the schedule); otherwise empty. */
    struct zt_program_set loss_train, loss_evaluation;
    bool replicas;                   /* mode dp: rank 0 loads whole micro-batches and scatters them to the replicas */
    struct zt_step_shape full, tail; /* of a stream: of a step whose micro-batches are all full; none */
    int64_t short_rows;              /* of a stream: samples of the last micro-batch of an epoch on a rank; 0: full */
    struct zt_schedule full_schedule, tail_schedule; /* tail: count 0 if there is no smaller last step */
    struct zt_schedule eval_schedule;                /* for one micro-batch */
    int slots;
    int threads;        /* compute threads of the rank */
    bool device_memory; /* planned for a device with its own memory, which may hold the data set
                           (run/rank/stored_data.h) */
    bool keeps_input;   /* slots copy the input columns, because the loader reuses its memory before the backward phase
                           reads them */
    int64_t loss_activation_bytes; /* the part of activation_bytes for the loss, in the last slot */
    bool trains;                   /* the rank plans gradients and optimizer states; false: only an evaluation */
    int optimizer_states;          /* number of optimizer state arrays */
    /* 1-bit optimizers: what follows the state arrays in the optimizer block, in bytes from its start. The errors of
     * the compression by side, what is remembered of tensors (optim/one_bit/trust.h), working memory of the
     * compression. */
    const struct zt_compressed *compressed; /* NULL: nothing is compressed */
    int64_t error_at[ZT_COMPRESSED_SIDES], trust_at, compressed_at;
    bool averages;       /* the last of them is the average of the weights (ztrain.ema) */
    int64_t shard_elems; /* parameters that the rank holds in memory: in its block, or in host memory beside a GPU */
    struct zt_offload offload;
    int64_t matrix_bytes; /* host memory while a matrix is updated beside a GPU; 0: the workspace has room for it */
    const char *folder;   /* output folder of the run; NULL: none */
    int64_t parameter_bytes, derived_bytes, gradient_bytes, optimizer_bytes, activation_bytes,
        workspace_bytes;        /* of the memory blocks; optimizer_bytes without what is offloaded */
    int64_t frozen_shard_bytes; /* of parameter_bytes, in front of the statistics: this rank's part of `frozen` */
    int64_t frozen_bytes;       /* contents of frozen weights that every rank of the stage holds whole */
    double flops;               /* forward and backward of a full micro-batch on this stage */
    uint64_t hash; /* hash of everything that must be equal on all ranks: grid, graphs, stage bounds, buckets, steps,
                      schedule, requested recomputation */
};

/* The layouts of the plan's stage. */
static inline struct zt_flats zt_rank_plan_flats(const struct zt_rank_plan *plan) {
    return (struct zt_flats){ plan->flat, plan->frozen ? plan->frozen->flat : NULL };
}

/* Returns the samples of a micro-batch of a step of a shape: on one rank, with padding; before it in the step, on all
 * ranks; and of the loss over all replicas in mode dp. */
int64_t zt_rank_rows(const struct zt_rank_plan *plan, const struct zt_step_shape *shape, int micro_batch);
int64_t zt_rank_rows_before(const struct zt_rank_plan *plan, const struct zt_step_shape *shape, int micro_batch);
int64_t zt_rank_loss_rows(const struct zt_rank_plan *plan, const struct zt_step_shape *shape, int micro_batch);
/* Returns the shape of step `step`. */
struct zt_step_shape zt_rank_shape(const struct zt_rank_plan *plan, int64_t step);

/* Whether the program of training graph `training_graph` can run micro-batches of `rows` samples, with padding samples
 * if `padded`. */
bool zt_rank_fits(const struct zt_rank_plan *plan, const struct zt_training_graph *training_graph, int64_t rows,
                  bool padded);

struct zt_rank_options {
    const struct zt_source *source, *eval_source; /* column shapes; eval_source may be NULL */
    int rank;
    struct zt_device *device;
    int threads;
    const char *folder; /* output folder of the run, which names its files below nvme_path; NULL: it does not run */
    bool elsewhere;     /* planned for other hardware: plain layouts, no kernels of this machine; the plan cannot run */
};
/* Plans a rank. Errors: data that do not fit the model, nodes without a kernel, a memory limit that is too low. Destroy
 * with zt_rank_plan_destroy(). */
struct zt_rank_plan *zt_rank_plan_create(const struct zt_job *job, const struct zt_rank_options *options,
                                         struct zt_err *err);
void zt_rank_plan_destroy(struct zt_rank_plan *plan);
/* Writes what ranks divide: "zero2", or that the config's stage divides nothing. Returns `to`. */
char *zt_rank_plan_mode(const struct zt_rank_plan *plan, char *to, size_t size);

#endif
