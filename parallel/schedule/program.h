/* A rank's program: what one micro-batch of a given size runs on one rank, where everything lies, and what is sent to
 * whom.
 *
 * Made from the joint graph by pure functions: the rank's stage is cut out (zt_program_stage_graph), back ends and
 * layouts are assigned (graph/assign), the hooks say where parameters and gradients live and where collectives sit
 * (hooks.c), and the memory plan gives every value an offset. The executor runs it without knowing ZeRO stage or
 * schedule. */
#ifndef ZT_PARALLEL_SCHEDULE_PROGRAM_H
#define ZT_PARALLEL_SCHEDULE_PROGRAM_H

#include "graph/ir/graph.h"
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/assign/assign.h"
#include "graph/passes/recompute/recompute.h"
#include "parallel/partition/shard.h"
#include "parallel/partition/split.h"

/* The joint graph of one micro-batch size, before it is cut into stages. Ids are of `graph`; -1: not there. */
struct zt_training_graph {
    struct zt_graph *graph;
    int64_t rows;                 /* samples of the micro-batch */
    struct zt_stage_bounds *cuts; /* [stages + 1]: where it was split (split.h) */
    bool training;                /* has a backward phase; else evaluation */
    int *columns;                 /* fed values in the order of the data wants */
    int column_count;
    int loss;             /* float scalar */
    int seed;             /* fed scalar float: cotangent of the loss */
    int row_weight;       /* fed float [rows]: 1 for samples, 0 for padding; -1 where no padding can occur */
    bool weighted;        /* padding can occur: some stage reads row_weight */
    int correct, counted; /* evaluation with accuracy: float scalars */
    int *params, *grads;  /* by tensor in model order; a grad of -1 is zero (no path) */
    int *home; /* by tensor: the one it is a copy of on another stage (split.h), -1: none. Copies stand last */
    int param_count;
    int *fused; /* places found, by fusion pattern: those of the forward graph in the whole model, those of the joint
                   graph on this stage */
    int *statistics; /* initializers with write-backs, in model order; none in evaluation graphs */
    int statistic_count;
    const char **notes; /* what the user should know of how the graph was made, a line each, in the graph's arena */
    int note_count;
};

/* Where a value lies on this rank. */
enum zt_storage {
    ZT_NOWHERE,    /* not on this rank */
    ZT_CONSTANT,   /* contents are in zt_value.data */
    ZT_FED,        /* offset = index into the slot's table of fed arrays */
    ZT_PARAMETERS, /* offset in bytes into the block of that lifetime */
    ZT_STATISTICS, /* in the parameter block, behind the parameters; copied back by the forward phase */
    ZT_GRADIENTS,
    ZT_ACTIVATIONS, /* of the slot */
    ZT_DERIVED,     /* in the parameter block: made anew after every update (packed and cast weights, kept tensors) */
    ZT_STORAGES
};
struct zt_place {
    enum zt_storage in;
    int64_t offset;
};

enum zt_command_kind {
    ZT_RUN_NODE,  /* node */
    ZT_ADD_GRAD,  /* tensor: `to` `at` += `value` (= where nothing accumulates) */
    ZT_ZERO_GRAD, /* tensor: no path leads to it: `at` = 0 */
    ZT_GATHER,    /* bucket: from the shards into place; begins it */
    ZT_GATHERED,  /* bucket: it is in place from here on */
    ZT_RELEASE,   /* bucket: its place may be reused (printed; the memory plan has taken account of it) */
    ZT_REDUCE,    /* bucket: sum over ranks; begins it */
    ZT_REDUCED,   /* bucket: the sum is there from here on */
    ZT_KEEP,      /* the kept tensors come whole from the shards (shard.h) */
};
struct zt_command {
    enum zt_command_kind kind;
    int node, tensor, bucket;
    int value;          /* ADD_GRAD: the value to add */
    struct zt_place at; /* ADD_GRAD, ZERO_GRAD: the tensor's gradient; others: start of the whole bucket */
    bool accumulate; /* ADD_GRAD, RUN_NODE: adds to what earlier micro-batches of the step left, from the second on */
    bool last_only;  /* REDUCE, REDUCED: only in the last micro-batch of a step */
    bool shard; /* REDUCED: the own slice is added to the gradient shard; GATHER: it comes from the parameter shard */
    bool all;   /* REDUCE: every rank gets the whole sum (ddp) */
};

/* A value that crosses a stage boundary. */
struct zt_boundary_tensor {
    int value;
    size_t bytes;
};
struct zt_boundary_tensors {
    struct zt_boundary_tensor *at;
    int count;
};

struct zt_program {
    struct zt_arena *arena;
    struct zt_training_graph joint; /* graph is owned; ids are of it, -1 for what is on other stages */
    int stage;
    struct zt_prepared *prepared;
    struct zt_place *place[2]; /* by phase, by value: a gathered bucket may lie elsewhere in backward */
    struct zt_command *forward, *backward, *derive;
    int forward_count, backward_count, derive_count;
    struct zt_boundary_tensors recv_act, send_act, recv_grad, send_grad;
    int64_t activation_bytes; /* of one slot */
    int64_t derived_bytes, workspace_bytes;
    struct zt_segments recomputed; /* what the backward phase makes again */
};

/* How parameters, gradients and optimizer state are spread over the data-parallel ranks: a row of hooks.c. */
struct zt_sharding {
    const char *name; /* "ddp", "zero1", "zero2", "zero3", "dp" */
    bool optimizer, gradients, parameters;
    bool first_owns; /* all of it is rank 0's (zt_flat_give_to_first) */
};
const struct zt_sharding *zt_sharding_of(int zero_stage);
const struct zt_sharding *zt_sharding_replicas(void); /* mode dp */

/* How collectives are spread over time; numbers of elements. The keys of zero_optimization and their meaning are those
 * of DeepSpeed, planned at load time because a graph's order is fixed. */
struct zt_traffic {
    bool overlap;     /* overlap_comm: sums proceed behind the kernels that follow */
    int64_t prefetch; /* stage3_prefetch_bucket_size: gathered ahead of their use */
    int64_t max_live; /* stage3_max_live_parameters: no prefetch beyond so many in place */
    int64_t
        reuse_distance; /* stage3_max_reuse_distance: in place from forward to backward where fewer are used between */
};

struct zt_program_options {
    const struct zt_op_table *table;
    const struct zt_fusion *fusion;       /* NULL: none */
    const struct zt_recompute *recompute; /* NULL: nothing */
    enum zt_backend fast;
    int threads;
    struct zt_device *device;
    const struct zt_flat *flat; /* of this stage; tensor i is the i-th parameter of the stage */
    const struct zt_sharding *sharding;
    const struct zt_traffic *traffic;
    int data_rank;
    int stage, stages;
    bool accumulates;                /* more than one micro-batch a step is possible */
    const int64_t *statistic_offset; /* bytes into the parameter block, by joint.statistics */
};

/* Which parameters and statistics (indices into joint->params, joint->statistics) stage `stage` holds. Returns the
 * count. */
int zt_program_params(const struct zt_training_graph *joint, int stage, int *indices);
int zt_program_statistics(const struct zt_training_graph *joint, int stage, int *indices);

/* Takes over joint->graph (also on failure). */
struct zt_program *zt_program_create(const struct zt_training_graph *joint, const struct zt_program_options *options,
                                     struct zt_err *err);
void zt_program_destroy(struct zt_program *program);

/* ---- between program.c, cut.c and hooks.c ---- */

/* Drops what other stages run from p->joint.graph and lists the crossings; values received become inputs. */
bool zt_program_stage_graph(struct zt_program *p, int stages, struct zt_err *err);

/* How the gradient of each tensor of the stage gets into the gradient block. */
struct zt_gradient {
    int value;   /* its value (plain), -1: zero */
    int node;    /* after which node it is whole, -1: before the backward phase */
    bool direct; /* the kernel writes into the block itself; else ADD_GRAD does */
};

/* What the hooks decide for one bucket, as node positions; -1: not at all. The end of backward is node_count. */
struct zt_bucket_use {
    int first[2], last[2]; /* parameters are read, by phase */
    int gather[2];         /* before which node they begin to come; -1 in backward: still in place from forward */
    int grad_first, grad_last;
    int reduced; /* behind which node the sum is waited for */
};

/* The node behind which the memory of what was gathered for `phase` is free: in the backward phase where it stays. */
int zt_hooks_gathered_until(const struct zt_bucket_use *use, int phase);

/* Emits the commands of both phases around the nodes of p->joint.graph that are not derived. Gathered parameters and
 * unreduced gradients of a bucket lie in the activation block at gathered[phase][b] and reduced[b] (bytes); unused
 * where the sharding row keeps them whole. */
struct zt_hook_input {
    const struct zt_flat *flat;
    const struct zt_sharding *sharding;
    const bool *skipped; /* by node: not run for a micro-batch (derived, or a view that shares its input's memory) */
    const struct zt_gradient *gradients;
    const struct zt_bucket_use *use;
    const int64_t *gathered[2], *reduced;
};
void zt_hooks_emit(struct zt_program *p, const struct zt_hook_input *in);
/* What this rank holds, as flat ranges and where they start in its blocks (elements). `rank` is the owner of the slice.
 */
struct zt_range {
    int64_t first, last; /* flat, last exclusive */
    int64_t param_at, grad_at, state_at;
    int rank;
};
/* What rank `rank` has of buckets first_bucket..end_bucket-1 when the optimizer steps; ranges whose optimizer step it
 * does, copies left out; and ranges of parameters that stay in its parameter block. At most buckets * ranks. All return
 * the count. */
int zt_hooks_slices(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, int first_bucket,
                    int end_bucket, struct zt_range *to);
int zt_hooks_owned(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, struct zt_range *to);
int zt_hooks_held(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, struct zt_range *to);
/* Collectives after the optimizer step, at most two commands a bucket. Returns the count. */
int zt_hooks_after_step(const struct zt_flat *flat, const struct zt_sharding *sharding, struct zt_command *to);

/* Fills use[bucket] for the stage: where a bucket is read and written (zt_hooks_uses; param_value[t] is the value id of
 * tensor t), then when its collectives begin and end. */
void zt_hooks_uses(const struct zt_program *p, const struct zt_flat *flat, const bool *derived, const int *param_value,
                   const struct zt_gradient *gradients, struct zt_bucket_use *use);
void zt_hooks_shard(const struct zt_program *p, const struct zt_flat *flat, const struct zt_sharding *sharding,
                    const struct zt_traffic *traffic, struct zt_bucket_use *use);

#endif
