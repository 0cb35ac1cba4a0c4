/* The internals of a running rank, for src/run and src/checkpoint: its data structures, the location of values in its
 * memory blocks, and copies between them and the host. */
#ifndef ZT_RUN_RANK_BLOCKS_H
#define ZT_RUN_RANK_BLOCKS_H

#include "device/device.h"
#include "optim/optim.h"
#include "optim/loss_scale.h"
#include "parallel/comm/compressed.h"
#include "run/rank/rank.h"
#include "run/stop/stop.h"

/* Steps that queue the same work: full ones, and the last of an epoch. In a stream the steps that hold the end of an
 * epoch are mixed: each has a shorter micro-batch in another place. */
enum zt_step_kind { ZT_STEP_FULL, ZT_STEP_TAIL, ZT_STEP_MIXED };

/* A prepared node: its call, complete except for the data pointers. */
struct zt_ready {
    struct zt_call call;
    struct zt_view *views;         /* of inputs, then outputs */
    const struct zt_place **place; /* location of each view; NULL: omitted */
    const void **constant; /* contents of views with place ZT_CONSTANT, in device memory for kernels of the device */
    bool on_host;          /* the kernel runs on the host, but the rank's memory is on a device (device_memory.h) */
    bool (*run)(const struct zt_call *call, struct zt_err *err);
    const char *name;
    int cast; /* derived values: the node whose parameter this node casts to half precision; -1: none (derive.c) */
    struct zt_path path; /* implementation: as planned, or as run if different */
};

struct zt_run_program {
    const struct zt_program *program;
    int chunk;              /* model chunk in the schedule */
    struct zt_ready *ready; /* by node index; run NULL: not run on this rank */
};

/* Memory of a micro-batch in flight. */
struct zt_slot {
    char *activations;
    char *feed;                /* copies of the input columns; NULL: the loader's memory is used */
    void *fed[ZT_COLUMNS + 2]; /* addresses of columns, seed and row weights, in the order of ZT_FED offsets */
    float seed, *row_weight;
    int64_t samples;
    double weight; /* of its loss, as struct zt_batch has it */
};

/* A piece of one tensor within an owned range, at most ZT_PIECE elements. One thread updates a piece at a time. */
enum { ZT_PIECE = 16 * ZT_NORM_BLOCK };
struct zt_piece {
    int tensor, range;
    int64_t first, count; /* flat */
    float *param, *grad;
    float *state[ZT_OPTIM_STATES + 1]; /* of the optimizer, then the average of the weights (zt_piece_average) */
    /* Beside a GPU, of pieces that the host updates: param, grad and state are in host memory, and these are the places
     * on the device (offload.h). device_param NULL: the device holds no parameters. */
    bool on_host;
    float *device_param, *device_grad;
    double norms[2];
};

/* Consecutive pieces whose offloaded numbers are in memory together (offload.h). */
struct zt_sub_group {
    int first, count;  /* pieces */
    int64_t at, last;  /* their elements in each array of the files; last exclusive */
    bool states_away;  /* the states are not in the rank's block: in files, or beside a GPU in host memory */
    bool params_filed; /* the parameters are in a file */
};

/* A tensor that the optimizer updates as a matrix (plan/matrices.h), and the neighbouring pieces of it that this rank
 * updates. */
struct zt_rank_matrix {
    struct zt_matrix shape;
    int tensor, first_piece, piece_count;
    bool split;              /* several ranks have slices of it: its directions are gathered */
    int64_t *bound;          /* [data ranks + 1] their bounds, relative to the tensor */
    float *direction, *room; /* in the workspace: of the whole tensor; of the optimizer */
};

/* The pending collective of a bucket: a reduce_scatter, or all_gathers of parts of the bucket. */
struct zt_moving {
    struct zt_transfer *at;
    int64_t *bound;   /* [part][data ranks + 1] slice bounds relative to `first` of the part, for the all_gather */
    int64_t *first;   /* [part] first element in the bucket */
    int parts, count; /* count: transfers begun and not waited for */
};

struct zt_rank_device;
struct zt_rank_offload;
struct zt_rank_shards;
struct zt_rank_graphs;
struct zt_rank_stepping;
struct zt_rank_stored;

struct zt_rank {
    const struct zt_rank_plan *plan;
    struct zt_device *device;
    struct zt_rank_device *device_memory; /* state for a device with its own memory; NULL: host */
    struct zt_rank_stepping
        *stepping;                 /* state of the optimizer step on the device; NULL: host, or nothing is trained */
    struct zt_rank_stored *stored; /* data set in device memory (stored_data.h); NULL: host */
    struct zt_rank_graphs *graphs; /* captured graphs; NULL: not supported by the device */
    struct zt_comm *world, *data;  /* for data in host memory */
    struct zt_comm *bulk_world, *bulk_data; /* the same ranks, for data in the rank's memory blocks */
    struct zt_arena *arena;
    char *parameters, *derived, *gradients, *optimizer, *activations, *workspace;
    float *shard;       /* the parameters that this rank holds: the start of `parameters`, or host memory (offload.h) */
    char *matrix_space; /* while a matrix is updated (plan/matrices.h): the workspace, or host memory (offload.h) */
    int64_t feed_bytes, feed_rows;        /* bytes of a slot; samples of the largest micro-batch */
    const struct zt_program *derived_for; /* the program whose derived values are current; NULL: none */
    struct zt_run_program *programs;      /* training programs first */
    int program_count;
    struct zt_slot *slots;
    struct zt_range *owned, *held;
    int owned_count, held_count;
    struct zt_piece *pieces;
    int piece_count;
    struct zt_sub_group *sub_groups; /* all pieces, in order */
    int sub_group_count;
    struct zt_rank_offload *offload; /* offload.h; NULL: nothing is offloaded */
    struct zt_rank_shards *shards;   /* shards.h; NULL: all parameters of the rank are in its block */
    struct zt_rank_matrix *matrices; /* in the order of their updates (before_update.h) */
    int matrix_count;
    struct zt_command *after_step;
    int after_step_count;
    int64_t *bound;           /* [bucket][data ranks + 1] slice bounds relative to the bucket, for the communicator; the
                                 buckets of frozen weights follow */
    struct zt_moving *moving; /* by bucket, numbered through (parallel/partition/shard.h, zt_flats) */
    int underway;             /* number of buckets with pending transfers */
    struct zt_stop *stop;     /* stop and save requests that this rank forwards; NULL: none */
    double *scalars;          /* values of the step's reduction: loss, squares by rank, requests */
    double *tensor_norms;     /* Lamb: [data rank][tensor][2] */
    double *ratios;           /* trust ratio by tensor */
    struct zt_sharing sharing;            /* of the current step (optim/one_bit.h) */
    struct zt_compressed_call compressed; /* 1-bit optimizers on several ranks: the compressed all-reduce */
    struct zt_trust *trust;               /* by tensor, in the optimizer block; NULL: the optimizer has none */
    struct zt_trust_norms *trust_norms;   /* by piece */
    double *tensor_lr, *tensor_decay;     /* by tensor: learning rate factor; weight decay */
    int *tensor_group;                    /* by tensor: the group of its rates (optim/optim.h) */
    const struct zt_optimizer *row;
    struct zt_random random;
    struct zt_group group; /* the data-parallel group, for kernels that reduce over it */
    double *group_values;  /* of zt_group's max: ZT_GROUP_VALUES for each rank of the group */
    int64_t first_sample;  /* first sample of the step: index in the epoch */
    int64_t updates;       /* optimizer updates so far */
    double grad_scale;     /* of the current step: clipping factor / loss scale */
    struct zt_scaling scaling;
    struct zt_lr_state lr_state; /* of a learning-rate rule that follows a value */
    double norm, loss;
    bool finite;
    struct zt_step_result begun[ZT_RANK_AHEAD]; /* steps begun and not ended */
    int begun_count;
    struct zt_rank_hashes *hashes;   /* node_hashes.h; NULL: off */
    bool hashing;                    /* hashes are written in this step */
    struct zt_rank_tracing *tracing; /* non_finite_nodes.h; NULL: off */
    struct zt_rank_times *times;     /* times.h; NULL: off */
    struct zt_timers *timers;        /* run/timers/timers.h, borrowed; NULL: off */
    /* Told the points of the steps, borrowed; NULL: none. */
    const struct zt_rank_progress *progress;
};

/* Returns the program of chunk `chunk` for a micro-batch of a step of `shape`. */
const struct zt_run_program *zt_rank_program(const struct zt_rank *r, bool training, int chunk,
                                             const struct zt_step_shape *shape, int micro_batch);
/* Returns the address of a value, `constant` for ZT_CONSTANT. `slot` may be NULL for places outside of slots. */
void *zt_rank_at(const struct zt_rank *r, const struct zt_slot *slot, const struct zt_place *place,
                 const void *constant);
/* Returns the average of the weights of a piece (ztrain.ema); NULL: there is none. */
float *zt_piece_average(const struct zt_rank *r, const struct zt_piece *piece);
/* Copies from the rank's memory to the host and waits for the copy. */
bool zt_rank_fetch(const struct zt_rank *r, void *to, const void *from, size_t bytes, struct zt_err *err);
/* Copies the gradient of a piece, which comes from the device where there is one, to the host. */
bool zt_piece_fetch_gradient(const struct zt_rank *r, const struct zt_piece *piece, float *to, struct zt_err *err);
/* Performs non-overlapping copies within the rank's memory. */
bool zt_rank_copy_all(struct zt_rank *r, const struct zt_copy *copies, int count, struct zt_err *err);
/* to[i] += from[i] in the rank's memory */
bool zt_rank_add(struct zt_rank *r, float *to, const float *from, int64_t count, struct zt_err *err);

#endif
