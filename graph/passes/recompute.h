/* Recomputation: what the forward phase made is dropped and made again where the backward phase wants it.
 *
 * A rewrite of the joint graph behind fusion and in front of back ends and memory: each dropped node is cloned into the
 * backward phase, just before the first node that reads what it makes, and backward readers take the clone's values.
 * Clones are ordinary nodes; that they take less memory is found by the memory plan alone. Same bits: a clone is the
 * same row on the same inputs, so the same kernel in the same layouts; random ones draw by the original's name; what a
 * clone makes of running statistics is written back by nobody.
 *
 *     segment     |---- 0 ----|---- 1 ----| rest         kept: x, what leaves a segment (b, d) and all of the rest
 *     forward   x    a      b    c      d    e           backward: e' needs e and d, then segment 1 is made again
 *     backward                                           from b, gives d' and c', then segment 0 from x:
 *               e' | again c | d' c' | again a | b' a'
 *
 * Chen et al., "Training deep nets with sublinear memory cost", 2016: of n equal layers in sqrt(n) segments, sqrt(n)
 * are kept at one more forward pass. */
#ifndef ZT_GRAPH_PASSES_RECOMPUTE_H
#define ZT_GRAPH_PASSES_RECOMPUTE_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* What to make again; all zero: nothing. Several may be given; names come first. */
struct zt_recompute {
    /* Globs over node names. Adjacent nodes of the forward phase that fit one glob are a segment; where the glob has a
     * `*`, one ends where the text that it stands for changes up to the next '/': "/blocks.*" makes a segment of each
     * block. A segment of one node drops its outputs, a longer one keeps what others read of it. */
    const char *const *names;
    int name_count;
    int segments; /* the whole forward phase in so many segments of about equal bytes; the last one is kept. Negative:
                     the square root of the number of nodes with parameters */
    int layers;   /* > 0: the same, a segment for so many nodes with parameters */
    int64_t room; /* bytes that the activations of a micro-batch should take at most: the choice with the fewest FLOPs
                     of those that were tried, or, where none fits, the smallest */
};

/* One segment as it was chosen. Names are those of its first and last node in forward order. */
struct zt_segment {
    const char *first, *last;
    int nodes;     /* made again */
    int64_t bytes; /* dropped */
    double flops;  /* of making them again */
};
struct zt_segments {
    struct zt_segment *at;
    int count;
    double flops;  /* of all */
    int64_t bytes; /* activations of a micro-batch as estimated (layouts and fragments are not known yet) */
};

/* What else reads the graph's values. */
struct zt_recompute_ends {
    const int *keep; /* values that others than nodes read once the phases are over; -1: none */
    int keep_count;
    const int *grads; /* values that have a place of their own outside the activations; -1: none */
    int grad_count;
};

/* Rewrites the graph, whose nodes are resolved, inferred and sorted. The report lies in g's arena. A glob that no node
 * of the forward phase fits is no error here (a stage may have none): see zt_recompute_fits. */
bool zt_pass_recompute(struct zt_graph *g, const struct zt_recompute *how, const struct zt_recompute_ends *ends,
                       struct zt_segments *done, struct zt_err *err);

/* Whether some forward node fits the glob. */
bool zt_recompute_fits(const struct zt_graph *g, const char *glob);

/* Largest sum of bytes that values of the graph take at one time: what a memory plan without fragments needs, in plain
 * layouts. Values made of parameters and constants alone, views, results in place, and `grads` take none. */
int64_t zt_recompute_peak(const struct zt_graph *g, const struct zt_recompute_ends *ends);

#endif
