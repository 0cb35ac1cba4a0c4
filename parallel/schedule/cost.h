/* The cost model: FLOPs, bytes and a machine's rates -> seconds. Pure.
 *
 *     node        max(FLOPs / rate, bytes in and out / memory rate) + seconds of a kernel: the roofline
 *     collective  a ring inside each host and, each rank with its own adapter, rings over the hosts: (n - 1) / n of the
 *                 bucket over the links, of what a rank has then over the network, and a message a hop; an all-reduce
 *                 is a reduce-scatter and an all-gather, twice that
 *     step        the instruction lists of all stages, played against each other with these times (simulate.h) */
#ifndef ZT_PARALLEL_SCHEDULE_COST_H
#define ZT_PARALLEL_SCHEDULE_COST_H

#include "parallel/partition/grid.h"
#include "parallel/partition/machine.h"
#include "parallel/schedule/program.h"

/* Measured seconds of a rank, which stand for the model's own estimates: of what it does beside kernels and
 * collectives, by part, then of its program's nodes, by index. < 0: not known. */
enum zt_part { ZT_PART_LOAD, ZT_PART_NORM, ZT_PART_UPDATE, ZT_PARTS };

/* Bytes that a node reads and writes. */
double zt_cost_bytes(const struct zt_graph *g, int node);
/* Seconds of one node; and the least that it can take, at the machine's full rates. */
double zt_cost_node(const struct zt_machine *m, const struct zt_graph *g, int node);
double zt_cost_floor(const struct zt_machine *m, const struct zt_graph *g, int node);

/* Seconds of a reduce-scatter or an all-gather of `bytes` in all over `ranks` ranks of one stage, which are neighbours.
 */
double zt_cost_half_reduce(const struct zt_machine *m, int ranks, int64_t bytes);
/* Seconds of a message between neighbouring stages of the grid. */
double zt_cost_send(const struct zt_machine *m, const struct zt_grid *grid, int64_t bytes);

/* A stretch of a phase: kernels, the begin of a collective, or the wait for its end. */
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

/* What a rank of a stage takes. */
struct zt_stage_cost {
    struct zt_spans forward, backward, after_step;   /* after_step: gathers, then what is derived of the new weights */
    struct zt_spans backward_input, backward_weight; /* the halves of a split backward; empty: never split yet */
    double forward_seconds, backward_seconds;        /* kernels alone */
    double load_seconds;                             /* of a micro-batch's data; 0 unless measured */
    double norm_seconds, update_seconds;             /* the optimizer's */
    double derive_seconds; /* of after_step: what is made of the new weights (packed and cast ones) */
    double send_act_seconds, send_grad_seconds;
    /* Mode dp, of a micro-batch on rank 0: its inputs to the replicas, what the loss reads from them, the gradients
     * back, and the loss itself. */
    double scatter_seconds, gather_act_seconds, scatter_grad_seconds, loss_forward_seconds, loss_backward_seconds;
    bool own_channel; /* zt_machine.own_channel */
    int buckets;
    int64_t gather_bytes, reduce_bytes, send_bytes; /* that a rank sends a step */
};

/* What a rank of a stage does in a step. */
struct zt_stage_work {
    const struct zt_program *program;
    int micro_batches;
    const struct zt_flat *flat;
    const struct zt_command *after; /* collectives behind the step (zt_hooks_after_step) */
    int after_count;
    int64_t norm_bytes, update_bytes; /* that norm and optimizer read and write */
    const double *times;              /* as enum zt_part has it; NULL: nothing was measured */
};
/* Lists live in `arena`. */
void zt_cost_stage(struct zt_arena *arena, const struct zt_machine *m, const struct zt_grid *grid,
                   const struct zt_stage_work *work, struct zt_stage_cost *to);

/* Mode dp's share, of `loss` over the rows of all replicas. `input_bytes`: of a replica's inputs in a micro-batch. */
void zt_cost_replicas(const struct zt_machine *m, const struct zt_grid *grid, const struct zt_program *model,
                      const struct zt_program *loss, int64_t input_bytes, struct zt_stage_cost *to);

/* Bytes that one rank of `ranks` sends in a reduce-scatter or all-gather of `bytes`. */
int64_t zt_cost_sent(int ranks, int64_t bytes);

#endif
