/* Peak activation memory of a training graph, estimated before layouts and offsets are known. */
#ifndef ZT_GRAPH_PASSES_RECOMPUTE_PEAK_H
#define ZT_GRAPH_PASSES_RECOMPUTE_PEAK_H

#include "graph/ir/graph.h"

/* Values that are read outside the graph's nodes. */
struct zt_graph_roots {
    const int *outputs; /* values that must exist after both phases; -1: none */
    int output_count;
    const int *grads; /* values that have memory of their own outside the activations; -1: none */
    int grad_count;
};

/* Largest number of bytes that values occupy at one time: the size of a memory plan without fragmentation, in plain
 * layouts. Values computed from parameters and constants alone, views, results in place and `grads` count 0. */
int64_t zt_recompute_peak(const struct zt_graph *g, const struct zt_graph_roots *roots);

#endif
