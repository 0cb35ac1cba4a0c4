/* Common subexpression elimination among folded nodes: exporters often repeat the causal mask in every layer. */
#ifndef ZT_GRAPH_PASSES_SHARE_FOLDED_H
#define ZT_GRAPH_PASSES_SHARE_FOLDED_H

#include "graph/ir/graph.h"

/* The constant nodes seen so far. Zero-initialise before use. */
struct zt_folded {
    struct zt_map nodes; /* operator, attributes and inputs as text -> node index */
    struct zt_arena *arena;
};

/* For a constant node: if an earlier node has the same operator, attributes and inputs, copies that node's outputs and
 * returns true. Otherwise records the node and returns false. Nodes with small outputs are not recorded. */
bool zt_folded_alike(struct zt_folded *folded, const struct zt_graph *g, int node);
void zt_folded_finish(struct zt_folded *folded);

#endif
