/* The cost model: predicts times from FLOPs, bytes and machine rates. All functions are pure.
 *
 *     node        max(FLOPs / rate, bytes in and out / memory rate) + fixed time per kernel: the roofline model
 *     collective  a ring within each host, and rings over the hosts with one network adapter per rank: (n - 1) / n of
 *                 the bucket over the links, the same fraction of the remaining part over the network, and one message
 *                 per hop; an all-reduce is a reduce-scatter and an all-gather, so twice that
 *     files       bytes read / read rate + bytes written / write rate (struct zt_file_work)
 *     step        simulation of the instruction lists of all stages with these times (simulate.h) */
#ifndef ZT_PARALLEL_SCHEDULE_COST_H
#define ZT_PARALLEL_SCHEDULE_COST_H

#include "parallel/partition/grid.h"
#include "parallel/partition/machine.h"
#include "parallel/schedule/program.h"

/* Measured seconds of a rank, which replace estimates: first by zt_part (work other than kernels and collectives), then
 * by node of its program. < 0: unknown. */
enum zt_part { ZT_PART_LOAD, ZT_PART_NORM, ZT_PART_UPDATE, ZT_PARTS };

/* Bytes that a node reads and writes. */
double zt_cost_bytes(const struct zt_graph *g, int node);
/* Estimated seconds of one node, and the lower bound at the machine's full rates. */
double zt_cost_node(const struct zt_machine *m, const struct zt_graph *g, int node);
double zt_cost_floor(const struct zt_machine *m, const struct zt_graph *g, int node);

/* Seconds of a reduce-scatter or an all-gather of `bytes` in total over `ranks` consecutive ranks of one stage. */
double zt_cost_half_reduce(const struct zt_machine *m, int ranks, int64_t bytes);

/* A part of a phase: kernels, the start of a collective, or the wait for it. */
enum zt_span_kind { ZT_SPAN_COMPUTE, ZT_SPAN_GATHER, ZT_SPAN_REDUCE, ZT_SPAN_GATHERED, ZT_SPAN_REDUCED };
struct zt_span {
    enum zt_span_kind kind;
    double seconds;
    int bucket;     /* of a collective or wait */
    bool last_only; /* only in the last micro-batch of a step */
};
struct zt_spans {
    struct zt_span *at;
    int count;
};

/* Predicted times of a rank of a stage. */
struct zt_stage_cost {
    struct zt_spans forward, backward, after_step;   /* after_step: gathers, then derived values of the new weights */
    struct zt_spans backward_input, backward_weight; /* the halves of a split backward; empty at present */
    double forward_seconds, backward_seconds;        /* kernels only */
    double load_seconds;                             /* loading a micro-batch; 0 unless measured */
    double norm_seconds, update_seconds;             /* gradient norm and optimizer */
    double derive_seconds;                           /* part of after_step: packed and cast weights */
    double send_act_seconds, send_grad_seconds;
    /* Mode dp, per micro-batch on rank 0: scatter of inputs, gather of activations, scatter of gradients, and the
     * loss. */
    double scatter_seconds, gather_act_seconds, scatter_grad_seconds, loss_forward_seconds, loss_backward_seconds;
    bool own_channel; /* zt_machine.own_channel */
    int buckets;
    int64_t gather_bytes, reduce_bytes, send_bytes; /* sent by a rank per step */
    double file_seconds; /* all transfers of files in a step, whether they overlap with other work or not */
};

/* Bytes that a rank moves between memory and files: of optimizer states and weights in an update, and of weights for
 * the gathers of a micro-batch. Reads and writes share the device, so their times add up; what overlaps with kernels or
 * the arithmetic of the update takes the longer of the two times. */
struct zt_file_work {
    int64_t update_read, update_written, forward_read, backward_read;
    int64_t forward_first, backward_first; /* the first slice that is read, for which no kernel runs meanwhile */
    bool reads_ahead, writes_behind;       /* transfers of the update overlap with it */
    bool gathers_ahead;                    /* weights for gathers are read while kernels run */
};

/* The work of a rank of a stage in one step. */
struct zt_stage_work {
    const struct zt_program *program;
    int micro_batches;
    struct zt_flats flats;
    const struct zt_command *after; /* collectives after the step (zt_collectives_after_step) */
    int after_count;
    int64_t reduce_width;             /* bytes of an element of the gradients that are summed over ranks */
    int64_t norm_bytes, update_bytes; /* read and written by norm and optimizer */
    double update_flops;              /* matrix products of the optimizer */
    struct zt_file_work files;
    const double *times; /* indexed as enum zt_part states; NULL: nothing was measured */
};
/* Computes the times of a stage. Lists are allocated in `arena`. */
void zt_cost_stage(struct zt_arena *arena, const struct zt_machine *m, const struct zt_grid *grid,
                   const struct zt_stage_work *work, struct zt_stage_cost *to);

/* Adds the times of mode dp; `loss` runs on the rows of all replicas. `input_bytes`: inputs of a replica per
 * micro-batch. */
void zt_cost_replicas(const struct zt_machine *m, const struct zt_grid *grid, const struct zt_program *model,
                      const struct zt_program *loss, int64_t input_bytes, struct zt_stage_cost *to);

/* Bytes that one rank of `ranks` sends in a reduce-scatter or all-gather of `bytes`. */
int64_t zt_cost_sent(int ranks, int64_t bytes);

#endif
