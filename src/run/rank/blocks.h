/* Inside a running rank, for the files of src/run and src/checkpoint: what it holds, where a value lies in its blocks,
 * and how bytes move between them and the host. */
#ifndef ZT_RUN_RANK_BLOCKS_H
#define ZT_RUN_RANK_BLOCKS_H

#include "optim/optim.h"
#include "optim/scale.h"
#include "run/rank/rank.h"
#include "run/rank/stop.h"

/* A node ready to run: its call with everything filled in but the data pointers. */
struct zt_ready {
    struct zt_call call;
    struct zt_view *views;         /* inputs, then outputs */
    const struct zt_place **place; /* of each view, NULL: omitted */
    const void *
        *constant; /* contents where the place is ZT_CONSTANT; in the device's memory for kernels that run there */
    bool on_host;  /* the kernel is the host's, the memory is not (device_memory.h) */
    bool (*run)(const struct zt_call *call, struct zt_err *err);
    const char *name;
    int cast; /* of what is made of the parameters: the node whose parameter it rounds to half, -1: none (derive.c)
               */
    struct zt_path path; /* that it takes: as prepared, until it runs another way */
};

struct zt_run_program {
    const struct zt_program *program;
    int chunk;              /* of the schedule */
    struct zt_ready *ready; /* by node index; run NULL: not run here */
};

/* A micro-batch in flight. */
struct zt_slot {
    char *activations;
    char *feed;                /* own copies of the fed columns; NULL: the loader's memory is used in place */
    void *fed[ZT_COLUMNS + 2]; /* columns, seed, row weights: what ZT_FED offsets mean */
    float seed, *row_weight;
    int64_t samples;
};

/* A piece of one tensor in one owned range, at most ZT_PIECE elements: what one thread updates at a time. */
enum { ZT_PIECE = 16 * ZT_NORM_BLOCK };
struct zt_piece {
    int tensor, range;
    int64_t first, count; /* flat */
    float *param, *grad, *state[ZT_OPTIM_STATES];
    double norms[2];
};

/* What the collective at hand of a bucket moves: a reduce_scatter, all_gathers of parts of the bucket. */
struct zt_moving {
    struct zt_transfer *at;
    int64_t *bound;   /* [part][data ranks + 1] relative to `first` of the part: what the all_gather of a part takes */
    int64_t *first;   /* [part] elements into the bucket */
    int parts, count; /* count: transfers begun and not waited for */
};

struct zt_rank_device;
struct zt_rank_graphs;
struct zt_rank_stepping;
struct zt_rank_stored;

struct zt_rank {
    const struct zt_rank_plan *plan;
    struct zt_device *device;
    struct zt_rank_device *away;            /* what a device with memory of its own needs; NULL on the host */
    struct zt_rank_stepping *stepping;      /* what its step needs; NULL on the host, and where nothing is trained */
    struct zt_rank_stored *stored;          /* data in the device's memory (stored_data.h); NULL on the host */
    struct zt_rank_graphs *graphs;          /* NULL: the device records nothing */
    struct zt_comm *world, *data;           /* for host memory */
    struct zt_comm *bulk_world, *bulk_data; /* the same ranks, for what lies in the rank's blocks */
    struct zt_arena *arena;
    char *parameters, *derived, *gradients, *optimizer, *activations, *workspace;
    int64_t feed_bytes, feed_rows;        /* of a slot; of the largest micro-batch */
    const struct zt_program *derived_for; /* whose derived values are in place; NULL: stale */
    struct zt_run_program *programs;      /* training ones first */
    int program_count;
    struct zt_slot *slots;
    struct zt_range *owned, *held;
    int owned_count, held_count;
    struct zt_piece *pieces;
    int piece_count;
    struct zt_command *after_step;
    int after_step_count;
    int64_t *bound;           /* [bucket][data ranks + 1], relative to the bucket: what the communicator takes */
    struct zt_moving *moving; /* by bucket */
    int underway;             /* buckets with transfers begun */
    struct zt_stop *stop;     /* whose requests this rank passes on; NULL: none */
    double *scalars;          /* of the step's reduction: loss, squares by rank, requests */
    double *tensor_norms;     /* Lamb: [data rank][tensor][2] */
    double *ratios;           /* by tensor */
    double *tensor_lr, *tensor_decay; /* by tensor: factor on the rate; weight decay */
    const struct zt_optimizer *row;
    struct zt_random random;
    struct zt_group peers; /* the data ranks, for kernels that sum over them */
    int64_t first_sample;  /* of the step: its index in the epoch */
    int64_t updates;       /* applied so far */
    double grad_scale;     /* of the step at hand: clipping factor / loss scale */
    struct zt_scaling scaling;
    double norm, loss;
    bool finite;
    struct zt_step_result begun[ZT_RANK_AHEAD]; /* steps whose results are still to be given */
    int begun_count;
    struct zt_rank_hashes *hashes;   /* node_hashes.h; NULL: none are asked for */
    bool hashing;                    /* in this step */
    struct zt_rank_tracing *tracing; /* trace.h; NULL: no step is run again */
    struct zt_rank_times *times;     /* times.h; NULL: nobody asks how long things take */
};

/* What chunk `chunk` runs for a micro-batch: the last of a step of `shape`, or another. */
const struct zt_run_program *zt_rank_program(const struct zt_rank *r, bool training, int chunk,
                                             const struct zt_step_shape *shape, bool last);
/* Where a value lies: `constant` where the place is ZT_CONSTANT. `slot` may be NULL where the place is of no slot. */
void *zt_rank_at(const struct zt_rank *r, const struct zt_slot *slot, const struct zt_place *place,
                 const void *constant);
/* From the rank's memory to the host, waiting for it. */
bool zt_rank_fetch(const struct zt_rank *r, void *to, const void *from, size_t bytes, struct zt_err *err);
/* Copies that do not overlap within the rank's memory. */
bool zt_rank_copy_all(struct zt_rank *r, const struct zt_copy *copies, int count, struct zt_err *err);
/* to[i] += from[i], in the rank's memory. */
bool zt_rank_add(struct zt_rank *r, float *to, const float *from, int64_t count, struct zt_err *err);

#endif
