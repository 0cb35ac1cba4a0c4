/* One rank: its plan (programs, slices, schedules, bytes) and its run (blocks, the step, evaluation).
 *
 * The plan is pure; `ztrain plan` makes it and prints it. The run allocates five blocks of the sizes the plan gave and
 * nothing after: parameters (with statistics and derived weights), gradients, optimizer, activations, workspace. */
#ifndef ZT_RUN_RANK_H
#define ZT_RUN_RANK_H

#include "base/log.h"
#include "device/device.h"
#include "plan/job.h"
#include "optim/scale.h"
#include "parallel/comm/comm.h"
#include "parallel/partition/grid.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/schedule.h"
#include "parallel/schedule/tied_weights.h"

/* How the samples of one step are cut (data.h, zt_loader_create). */
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

/* Bytes of a rank by lifetime. */
struct zt_rank_bytes {
    int64_t parameters, gradients, optimizer, activations, workspace; /* parameters: with statistics, packed copies */
};
int64_t zt_rank_bytes_total(const struct zt_rank_bytes *bytes);

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
    struct zt_cut *cuts; /* of all programs: where the first one was split into stages */
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
    bool away;        /* planned for a device with memory of its own, where data may stay (stored_data.h) */
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
bool zt_rank_fits(const struct zt_rank_plan *plan, const struct zt_joint *joint, int64_t rows, bool padded);

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
/* What the data-parallel rank `data_rank` of the plan's stage holds. */
struct zt_rank_bytes zt_rank_plan_bytes(const struct zt_rank_plan *plan, int data_rank);
/* Elements whose optimizer step it does and state it holds: copies of weights of other stages are not among them. */
int64_t zt_rank_plan_stepped(const struct zt_rank_plan *plan, int data_rank);
/* The data-parallel rank of the stage that owns most. */
int zt_rank_plan_largest(const struct zt_rank_plan *plan);
/* Schedule, buckets and programs of the plan's stage. */
void zt_rank_plan_print(const struct zt_rank_plan *plan, FILE *to);

struct zt_rank; /* a running rank */
struct zt_stop;

/* `world` and `data` (the data-parallel group of the stage) are borrowed. Places the initial weights. */
struct zt_rank *zt_rank_create(const struct zt_rank_plan *plan, struct zt_device *device, struct zt_comm *world,
                               struct zt_comm *data, struct zt_err *err);
void zt_rank_destroy(struct zt_rank *rank);
/* What this rank reads of the training data from step `first` to the end of step `steps` - 1, or of all evaluation
 * data (rank_data.c). To be destroyed before the rank; *to is NULL where rank 0 reads for it. */
bool zt_rank_loader(struct zt_rank *rank, bool training, int64_t first, int64_t steps, struct zt_loader **to,
                    struct zt_err *err);
/* Bytes that come to the device for a micro-batch of training data, or of evaluation data; 0 on the host. */
int64_t zt_rank_brings(const struct zt_rank *rank, bool training);
/* Says how many threads read, which data stay in the device's memory, and why others do not. */
void zt_rank_say_data(const struct zt_rank *rank, const struct zt_log *log);
/* Warns, a line for each kind, of nodes whose tensors travel between device and host because the device has no kernel
 * for them. */
void zt_rank_warn(const struct zt_rank *rank, const struct zt_log *log);
/* Warns of nodes that ran another way than they were planned (struct zt_path). */
void zt_rank_warn_paths(const struct zt_rank *rank, const struct zt_log *log);

/* How much of a step the device is given at once (captured.c), into `text`; NULL where the device cannot. */
const char *zt_rank_graphs_text(const struct zt_rank *rank, char text[ZT_ERR_TEXT]);

/* From now on the rank passes on the requests of this process in the reduction of its steps (stop.h); borrowed. Of the
 * ranks of one process one does. */
void zt_rank_watch(struct zt_rank *rank, struct zt_stop *stop);

int64_t zt_rank_updates(const struct zt_rank *rank); /* optimizer steps applied since the model file */

struct zt_step_result {
    double loss, grad_norm, lr;
    int stop;                      /* signal that all ranks are to save and stop for; 0: none */
    bool save;                     /* they are to save */
    int64_t samples, epoch, batch; /* batch: index in the epoch */
    double loss_scale;             /* that it was run with */
    struct zt_scaling scaling;     /* behind it */
    bool finite;
};
/* One optimizer step: micro-batches from `loader` (NULL where rank 0 reads for this rank). A loss or norm that is not
 * finite leaves weights as they are and sets finite false. Loss and norm are those of the loss that is not scaled. */
bool zt_rank_step(struct zt_rank *rank, struct zt_loader *loader, int64_t step, struct zt_step_result *result,
                  struct zt_err *err);
/* The same in two halves: end gives the result of the oldest step begun. At most ZT_RANK_AHEAD may be begun and not
 * ended, and all else that is asked of a rank wants them ended. Where a device works on its own (runs_ahead) a step is
 * begun before the last one's outcome is known, which an update that is left out does not disturb. */
enum { ZT_RANK_AHEAD = 2 };
bool zt_rank_begin(struct zt_rank *rank, struct zt_loader *loader, int64_t step, struct zt_err *err);
bool zt_rank_end(struct zt_rank *rank, struct zt_step_result *result, struct zt_err *err);
bool zt_rank_runs_ahead(const struct zt_rank *rank);
/* Whether in the step begun last some rank was asked to save or to stop. */
bool zt_rank_asked(const struct zt_rank *rank);

/* Whether times can be had of what runs on the device. */
bool zt_rank_can_time(const struct zt_device *device);
/* From here on kernels are timed, in the next `steps` steps, where they can be; on a device that slows these down. Then
 * what all kernels of the timed step `step` took together, and zt_rank_plan_times() numbers as enum zt_part
 * (parallel/schedule/cost.h) has them. */
void zt_rank_time(struct zt_rank *rank, int steps);
double zt_rank_timed_step(const struct zt_rank *rank, int step);
void zt_rank_timed(const struct zt_rank *rank, int step, double *to);
void zt_rank_time_end(struct zt_rank *rank); /* harmless where nothing is timed */
int zt_rank_plan_times(const struct zt_rank_plan *plan);

struct zt_eval_result {
    double loss, accuracy; /* accuracy: NAN where the loss has no classes */
};
/* Runs all that `loader` delivers (steps of `batches` micro-batches) through the evaluation programs. */
bool zt_rank_evaluate(struct zt_rank *rank, struct zt_loader *loader, struct zt_eval_result *result,
                      struct zt_err *err);

/* Brings all trained tensors and statistics of all stages to rank 0 (collective): payloads by name into `arena` there,
 * *count 0 elsewhere. */
bool zt_rank_collect(struct zt_rank *rank, struct zt_arena *arena, struct zt_onnx_payload **payloads,
                     int64_t **elements, int *count, struct zt_err *err);

#endif
