/* Constant folding: a node whose inputs are constants runs once, with its reference kernel, and its outputs become
 * constants. */
#ifndef ZT_GRAPH_PASSES_FOLD_H
#define ZT_GRAPH_PASSES_FOLD_H

#include "graph/passes/share_folded.h"

/* The limits of the folding of one graph, and the nodes folded so far. */
struct zt_folding {
    size_t node_limit; /* bytes that one node may make */
    double left; /* bytes, and operations, that all further nodes may make: bounds for a file of many small nodes */
    double flops_left;
    struct zt_folded folded;
};

/* Folding of up to `node_limit` bytes a node, twice that in total, and about 10^8 operations in total. */
struct zt_folding zt_folding_begin(size_t node_limit);
/* Folds an inferred node into the arena of `g` if it is constant and within the limits: its outputs get their data, and
 * the node is marked as dead. Other nodes do not change. */
bool zt_fold_node(struct zt_folding *folding, struct zt_graph *g, int node, struct zt_err *err);
void zt_folding_finish(struct zt_folding *folding);

#endif
