/* Recomputation (activation checkpointing): forward values are dropped and computed again in the backward phase.
 *
 * The pass rewrites the training graph after fusion and before assignment and memory planning. It clones each dropped
 * node into the backward phase, just before the first node that reads one of its outputs; backward nodes then read the
 * clone's outputs. Clones are ordinary nodes, and the memory plan finds the shorter lifetimes by itself. Results stay
 * equal bit for bit: a clone has the same row, inputs, kernel and layouts; a random clone draws by the original's name;
 * the running statistics that a clone computes are not written back.
 *
 *     segment     |---- 0 ----|---- 1 ----| rest         kept: x, outputs of segments (b, d) and all of the rest
 *     forward   x    a      b    c      d    e           backward: e' needs e and d; segment 1 is recomputed from b
 *     backward                                           for d' and c'; segment 0 is recomputed from x
 *               e' | again c | d' c' | again a | b' a'
 *
 * Chen et al., "Training deep nets with sublinear memory cost", 2016: with n equal layers in sqrt(n) segments, sqrt(n)
 * activations are kept at the cost of one more forward pass. */
#ifndef ZT_GRAPH_PASSES_RECOMPUTE_RECOMPUTE_H
#define ZT_GRAPH_PASSES_RECOMPUTE_RECOMPUTE_H

#include "graph/passes/recompute/choose.h"

/* One recomputed segment, for reports. */
struct zt_segment {
    const char *first, *last; /* names of its first and last node in forward order */
    int nodes;                /* recomputed nodes */
    int64_t bytes;            /* dropped values */
    double flops;             /* of the recomputation */
};
struct zt_segments {
    struct zt_segment *at;
    int count;
    double flops;  /* of all segments */
    int64_t bytes; /* activations of a micro-batch after the pass: zt_recompute_peak */
};

/* Rewrites the graph, whose nodes are resolved, inferred and sorted. The report `done` is allocated in g's arena. A
 * glob that fits no node is not an error, since a pipeline stage may have none: see zt_recompute_fits. */
bool zt_pass_recompute(struct zt_graph *g, const struct zt_recompute *how, const struct zt_graph_roots *roots,
                       struct zt_segments *done, struct zt_err *err);

/* Whether the glob fits the name of a forward node. */
bool zt_recompute_fits(const struct zt_graph *g, const char *glob);

#endif
