/* Hooks: where parameters and gradients live under each ZeRO stage, and where collectives are placed in a program. The
 * only code that depends on the ZeRO stage. */
#ifndef ZT_PARALLEL_SCHEDULE_COLLECTIVES_H
#define ZT_PARALLEL_SCHEDULE_COLLECTIVES_H

#include "parallel/partition/shard.h"
#include "parallel/schedule/program.h"

/* The data that are sharded over the data-parallel ranks: a row of collectives.c, constant and never freed. Its fields
 * are private; other files ask the questions below. */
struct zt_sharding;
/* Returns the row of ZeRO stage 0 (ddp) to 3 over several ranks. */
const struct zt_sharding *zt_sharding_of(int zero_stage);
struct zt_sharding_wish {
    int zero_stage, data_ranks;
    bool replicas;            /* mode dp, on several ranks */
    bool offloads_parameters; /* to host memory or NVMe */
    bool reduce_scatter;      /* false: stages 1 and 2 all-reduce their gradients */
};
/* Returns the row of a run. One data-parallel rank shards nothing, but gathers its parameters for use if they are
 * offloaded. */
const struct zt_sharding *zt_sharding_of_run(const struct zt_sharding_wish *wish);
/* "ddp", "zero1", "zero2", "zero3", "dp"; "zero3" for one rank whose parameters are offloaded. */
const char *zt_sharding_name(const struct zt_sharding *sharding);
/* Whether optimizer states are sharded: each rank updates only its own slices. Otherwise every rank updates all. */
bool zt_sharding_splits_update(const struct zt_sharding *sharding);
/* Whether parameters are sharded: a rank holds its slices and gathers a bucket when nodes use it. Otherwise every rank
 * holds all parameters. */
bool zt_sharding_gathers_for_use(const struct zt_sharding *sharding);
/* Whether the optimizer step is followed by an all_gather of the updated parameters, in place in the parameter block.
 */
bool zt_sharding_gathers_after_step(const struct zt_sharding *sharding);
/* Whether every rank holds whole gradients: micro-batches accumulate in the gradient block, which is reduced in place.
 * Otherwise each micro-batch is reduced from the activation block into the rank's shard. */
bool zt_sharding_reduces_in_place(const struct zt_sharding *sharding);

/* Limits for the timing of collectives, in elements (frozen weights: units of 4 bytes). The keys of zero_optimization
 * have DeepSpeed's meaning, but the timing is planned when the model is loaded, because the order of nodes is fixed. */
struct zt_traffic {
    bool overlap;           /* overlap_comm: reductions overlap with the following kernels */
    int64_t prefetch;       /* stage3_prefetch_bucket_size: gathered before their first use */
    int64_t max_live;       /* stage3_max_live_parameters: limit of gathered elements for prefetch */
    int64_t reuse_distance; /* stage3_max_reuse_distance: a bucket stays gathered from forward to backward if fewer
                               elements are used in between */
};

/* The write of a tensor's gradient to the gradient block. */
struct zt_gradient {
    int value;   /* the gradient, in plain layout; -1: zero */
    int node;    /* the node after which it is complete; -1: before the backward phase */
    bool direct; /* the kernel writes to the block; false: ADD_GRAD does */
};

/* Timing of the collectives of one bucket, as node positions; -1: never. node_count is the end of backward. */
struct zt_bucket_use {
    int first[2], last[2]; /* first and last use of the parameters, by phase */
    int gather[2]; /* by phase, the node before which the all_gather starts; -1 in backward: still gathered from forward
                    */
    int grad_first, grad_last;
    int reduced;    /* the node after which the reduction is awaited */
    bool transient; /* the gradients are in the activation block until they are reduced */
};

/* Assigns the slices of a layout to their owners, as the sharding has it. Call it before zt_flat_persistent(). */
void zt_collectives_assign(struct zt_flat *flat, const struct zt_sharding *sharding);

/* Elements of parameters and of gradients that a rank holds, without gathered buckets; elements that it updates. */
int64_t zt_collectives_held_params(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank);
int64_t zt_collectives_held_gradients(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank);
int64_t zt_collectives_updated(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank);
/* The start of rank `rank`'s slice of a bucket in the parameters that a holder of the slice has, in elements. */
int64_t zt_collectives_param_at(const struct zt_flat *flat, const struct zt_sharding *sharding, int bucket, int rank);

/* The node after which the memory of a bucket gathered for `phase` is free. It is in the backward phase if the bucket
 * stays gathered. */
int zt_collectives_gathered_until(const struct zt_bucket_use *use, int phase);

struct zt_collectives_input {
    const struct zt_flats *flats;
    const struct zt_sharding *sharding;
    const bool *skipped; /* by node: not run per micro-batch (derived, or a view that shares its input's memory) */
    const struct zt_gradient *gradients;
    const struct zt_bucket_use *use; /* by bucket, numbered through (zt_flats) */
    const int64_t *gathered[2]; /* by phase, then bucket: byte offset of gathered parameters in the activation block */
    const int64_t *reduced;     /* by bucket: byte offset of unreduced gradients in the activation block */
};
/* Emits the commands of both phases, with collectives around the nodes. */
void zt_collectives_emit(struct zt_program *p, const struct zt_collectives_input *in);

/* A flat range that this rank holds, and its start in the rank's blocks. All positions are in elements. */
struct zt_range {
    int64_t first, last; /* flat, last exclusive */
    int64_t param_at, grad_at, state_at;
    int rank; /* owner of the slice */
};
/* Lists ranges of rank `rank`: zt_collectives_slices() those of buckets first_bucket..end_bucket-1 at the optimizer
 * step, zt_collectives_owned() those that the rank updates (without copies), zt_collectives_held() those whose
 * parameters stay in its parameter block. All return the count, at most buckets * ranks. */
int zt_collectives_slices(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, int first_bucket,
                          int end_bucket, struct zt_range *to);
int zt_collectives_owned(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, struct zt_range *to);
int zt_collectives_held(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, struct zt_range *to);
/* Lists the collectives after the optimizer step, at most two commands per bucket. Returns the count. */
int zt_collectives_after_step(const struct zt_flat *flat, const struct zt_sharding *sharding, struct zt_command *to);

/* Fills use[bucket] for the stage: zt_collectives_uses() the first and last uses of one layout (param_value[t] is the
 * value id of tensor t, -1: this graph does not read it; gradients NULL: none), then zt_collectives_shard() the timing
 * of the collectives of all. */
void zt_collectives_uses(const struct zt_program *p, const struct zt_flat *flat, const bool *derived,
                         const int *param_value, const struct zt_gradient *gradients, struct zt_bucket_use *use);
void zt_collectives_shard(const struct zt_program *p, const struct zt_flats *flats, const struct zt_sharding *sharding,
                          const struct zt_traffic *traffic, struct zt_bucket_use *use);

#endif
