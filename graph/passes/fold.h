/* Folded nodes that compute the same once more: exporters write the causal mask of every layer anew. */
#ifndef ZT_GRAPH_PASSES_FOLD_H
#define ZT_GRAPH_PASSES_FOLD_H

#include "graph/ir/graph.h"

/* Zero-initialise before use. */
struct zt_folded {
    struct zt_map nodes; /* by what they compute */
    struct zt_arena *arena;
};

/* Of a node that can be folded: where an earlier one has the same operator, attributes and inputs, its outputs become
 * this node's, and true; else it is remembered, and false. Nodes with small outputs are left alone. */
bool zt_folded_alike(struct zt_folded *folded, const struct zt_graph *g, int node);
void zt_folded_finish(struct zt_folded *folded);

#endif
