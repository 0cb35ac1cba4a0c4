/* A rank's program for one micro-batch size: the commands of forward and backward, the memory of every value, and the
 * tensors that are exchanged with other stages.
 *
 * Pure functions create it from the training graph: zt_program_stage_graph() extracts the rank's stage,
 * zt_pass_assign() chooses back ends and layouts, collectives.h places parameters, gradients and collectives, and
 * the memory plan gives every value an offset. The executor needs no knowledge of ZeRO stages or schedules. */
#ifndef ZT_PARALLEL_SCHEDULE_PROGRAM_H
#define ZT_PARALLEL_SCHEDULE_PROGRAM_H

#include "graph/ir/graph.h"
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/assign/assign.h"
#include "graph/passes/recompute/recompute.h"
#include "parallel/partition/shard.h"
#include "parallel/partition/split.h"

/* The training graph of one micro-batch size, before it is split into stages. Ids refer to `graph`; -1: none. */
struct zt_training_graph {
    struct zt_graph *graph;
    int64_t rows;                   /* samples of the micro-batch */
    struct zt_stage_bounds *bounds; /* [stages + 1] stage bounds (split.h) */
    const char **layers;            /* their names (split.h); NULL: one stage */
    bool training;                  /* has a backward phase; false: evaluation */
    int *columns;                   /* input values in the order of the data columns */
    int column_count;
    int loss;             /* float scalar */
    int seed;             /* scalar float input: cotangent of the loss */
    int row_weight;       /* float input [rows]: 1 for samples, 0 for padding; -1: no padding can occur */
    bool weighted;        /* padding can occur: a stage reads row_weight */
    int correct, counted; /* evaluation with accuracy: float scalars */
    int *params, *grads;  /* by tensor in model order; grad -1: zero (no path to the loss) */
    int *home; /* by tensor: the tensor of another stage of which it is a copy (split.h); -1: none. Copies come last */
    int param_count;
    int *fused; /* places found, by fusion pattern: those of the forward graph in the whole model, those of the training
                   graph on this stage */
    int *statistics; /* initializers with write-backs, in model order; empty in evaluation graphs */
    int statistic_count;
    const char **notes; /* notes for the user about the graph, one line each, in the graph's arena */
    int note_count;
};

/* The memory that holds a value on this rank. */
enum zt_storage {
    ZT_NOWHERE,    /* not on this rank */
    ZT_CONSTANT,   /* zt_value.data */
    ZT_FED,        /* an input; offset: index in the slot's table of inputs */
    ZT_PARAMETERS, /* from here on, offset: bytes in the block of that name */
    ZT_STATISTICS, /* in the parameter block, after the parameters; the forward phase writes them back */
    ZT_GRADIENTS,
    ZT_ACTIVATIONS, /* of the slot */
    ZT_DERIVED, /* in the parameter block, recomputed after every update: packed and cast weights, persistent tensors */
    ZT_STORAGES
};
struct zt_place {
    enum zt_storage in;
    int64_t offset;
};

enum zt_command_kind {
    ZT_RUN_NODE,          /* node */
    ZT_ADD_GRAD,          /* tensor: `to` `at` += `value` (= where nothing accumulates) */
    ZT_ZERO_GRAD,         /* tensor without path to the loss: `at` = 0 */
    ZT_GATHER,            /* bucket: starts the all_gather of its shards */
    ZT_GATHERED,          /* bucket: waits for the all_gather */
    ZT_RELEASE,           /* bucket: its memory may be reused (for printing; the memory plan already does so) */
    ZT_REDUCE,            /* bucket: starts the sum over ranks */
    ZT_REDUCED,           /* bucket: waits for the sum */
    ZT_GATHER_PERSISTENT, /* all_gather of the persistent tensors (shard.h) */
};
struct zt_command {
    enum zt_command_kind kind;
    int node, tensor;
    int bucket;         /* numbered through, those of frozen weights last (zt_flats) */
    int value;          /* ADD_GRAD: the value to add */
    struct zt_place at; /* ADD_GRAD, ZERO_GRAD: the tensor's gradient; others: start of the whole bucket */
    bool accumulate;    /* ADD_GRAD, RUN_NODE: adds to the result of earlier micro-batches of the step */
    bool last_only;     /* REDUCE, REDUCED: only in the last micro-batch of a step */
    bool shard;         /* REDUCED: adds the own slice to the gradient shard; GATHER: reads the shard of its layout */
    bool all;           /* REDUCE: every rank gets the complete sum (ddp) */
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
    struct zt_training_graph
        training_graph; /* of this stage: `graph` is owned; ids are -1 for values of other stages */
    int stage;
    struct zt_prepared *prepared;
    struct zt_place *place[2]; /* by phase, then by value: a gathered bucket may have another place in backward */
    struct zt_command *forward, *backward, *derive;
    int forward_count, backward_count, derive_count;
    struct zt_boundary_tensors recv_act, send_act, recv_grad, send_grad;
    int64_t activation_bytes; /* of one slot */
    int64_t derived_bytes, workspace_bytes;
    struct zt_segments recomputed; /* recomputation in the backward phase */
};

struct zt_sharding;
struct zt_traffic;
struct zt_frozen_layout; /* frozen_weights.h */

struct zt_program_options {
    const struct zt_op_table *table;
    const struct zt_fusion *fusion;       /* NULL: none */
    const struct zt_recompute *recompute; /* NULL: nothing */
    enum zt_backend fast;
    int threads;
    struct zt_device *device;
    const struct zt_flat *flat;            /* of this stage; tensor i is the stage's i-th parameter */
    const struct zt_frozen_layout *frozen; /* frozen weights that ranks share out; NULL: none */
    const struct zt_sharding *sharding;
    const struct zt_traffic *traffic;
    int data_rank;
    int stage, stages;
    bool accumulates;                /* a step may have several micro-batches */
    bool rounds;                     /* gradients are rounded as they are accumulated, so that no kernel adds to them */
    const int64_t *statistic_offset; /* in bytes in the parameter block, by training_graph.statistics */
};

/* Lists the parameters or statistics of a stage, as indices into training_graph->params or training_graph->statistics.
 * Returns the count.
 */
int zt_program_params(const struct zt_training_graph *training_graph, int stage, int *indices);
int zt_program_statistics(const struct zt_training_graph *training_graph, int stage, int *indices);

/* Takes ownership of training_graph->graph, also on failure. */
struct zt_program *zt_program_create(const struct zt_training_graph *training_graph,
                                     const struct zt_program_options *options, struct zt_err *err);
void zt_program_destroy(struct zt_program *program);

#endif
