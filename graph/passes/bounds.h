/* Bounds of the elements of a value whose contents are not known: of a condition or trip count that depends on data. */
#ifndef ZT_GRAPH_PASSES_BOUNDS_H
#define ZT_GRAPH_PASSES_BOUNDS_H

#include "graph/ir/graph.h"

/* The range of the elements of `value`, from the nodes that compute it (interval arithmetic): constants, Min, Max,
 * Clip, sums, comparisons, And, Or, and what moves elements. Infinite where nothing is known; of booleans 0 and 1. NaN
 * is not considered. */
struct zt_bounds zt_bounds_of(const struct zt_graph *g, int value);

#endif
