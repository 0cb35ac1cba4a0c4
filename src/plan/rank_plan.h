/* The plan of one rank: its programs, slices, schedules and bytes. It is pure: the same inputs give the same plan on
 * every machine. `ztrain plan` makes it and prints it. */
#ifndef ZT_PLAN_RANK_PLAN_H
#define ZT_PLAN_RANK_PLAN_H

#include "device/device.h"
#include "parallel/partition/grid.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/schedule.h"
#include "parallel/schedule/tied_weights.h"
#include "plan/job/job.h"

/* How the samples of one step are divided (data/loader.h, zt_loader_create). */
struct zt_step_shape {
    int64_t samples;         /* of the step over all ranks; 0: no such step */
    int micro_batches;       /* on each rank */
    int64_t rows, last_rows; /* of every micro-batch but the last, and of the last */
    bool padded;             /* some rank has padding rows in the last one */
};
struct zt_step_shape zt_step_shape(int64_t samples, int64_t micro_batch, int data_ranks);

/* All that can be run: programs of every micro-batch size for training and evaluation. */
struct zt_program_set {
    struct zt_program **at;
    int count;
};

/* A tensor that training changes, of whichever stage. */
struct zt_model_tensor {
    const char *name;
    struct zt_shape shape;
    int stage; /* the first that holds it */
};

struct zt_rank_plan {
    struct zt_arena *arena;
    const struct zt_job *job;
    const struct zt_source *source, *eval_source; /* borrowed; NULL: not there */
    int64_t whole_steps, eval_samples;            /* full steps in an epoch; samples of an evaluation */
    int64_t eval_rows; /* of an evaluation's micro-batch: the config's, fewer where the memory limit asks for it */
    struct zt_grid grid;
    const struct zt_sharding *sharding;
    struct zt_traffic traffic;
    struct zt_stage_bounds *cuts; /* of all programs: where the first one was split into stages */
    struct zt_flat *flat;
    struct zt_tie_run *ties; /* weights held on several stages */
    int tie_count;
    int64_t statistic_bytes, *statistic_offset,
        *statistic_count; /* of this stage, by its statistics; counts in elements */
    const char **statistic_name;
    const void **statistic_initial, **param_initial; /* contents in the model file; parameters by tensor of `flat` */
    int statistic_total;
    /* Trained tensors of the whole model in its order, then its statistics: the same in every layout. */
    struct zt_model_tensor *model;
    int model_count, model_params;      /* all; the trained ones in front */
    int *param_model, *statistic_model; /* by this stage's tensors, and statistics: where they stand in `model` */
    struct zt_program_set train, evaluation;
    /* Mode dp: the loss over the rows of all replicas, on rank 0 (chunk 1 of the schedule); else empty. */
    struct zt_program_set loss_train, loss_evaluation;
    bool replicas; /* mode dp: rank 0 loads whole micro-batches and scatters them */
    struct zt_step_shape full, tail;
    struct zt_schedule full_schedule, tail_schedule; /* tail: count 0 without */
    struct zt_schedule eval_schedule;                /* of one micro-batch */
    int slots;
    bool away;        /* planned for a device with memory of its own, where data may stay (run/rank/stored_data.h) */
    bool keeps_input; /* slots have memory for the fed columns: the loader's is gone before backward reads it */
    int64_t loss_activation_bytes; /* of activation_bytes, those of the last slot, which is the loss's */
    int optimizer_states;          /* arrays an element */
    int64_t parameter_bytes, derived_bytes, gradient_bytes, optimizer_bytes, activation_bytes, workspace_bytes;
    double flops;  /* of one full micro-batch, forward and backward, this stage */
    uint64_t hash; /* of all that ranks must agree on, the same on every rank: grid, graphs, cuts, buckets, steps,
                      schedule, recomputation asked for */
};

/* Rows of the loss in mode dp: those of all replicas together in the last micro-batch of a step or another. */
int64_t zt_rank_loss_rows(const struct zt_rank_plan *plan, const struct zt_step_shape *shape, bool last);

/* Whether a program of graph `joint` runs micro-batches of `rows` samples, of which some may be padding. */
bool zt_rank_fits(const struct zt_rank_plan *plan, const struct zt_training_graph *joint, int64_t rows, bool padded);

struct zt_rank_options {
    const struct zt_source *source, *eval_source; /* shapes of the columns; eval may be NULL */
    int rank;
    struct zt_device *device;
    int threads;
    bool elsewhere; /* planned for another kind of machine: plain layouts, no kernel of this one; not to be run */
};
struct zt_rank_plan *zt_rank_plan_create(const struct zt_job *job, const struct zt_rank_options *options,
                                         struct zt_err *err);
void zt_rank_plan_destroy(struct zt_rank_plan *plan);

#endif
