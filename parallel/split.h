/* Which pipeline stage runs which node: contiguous ranges of the forward order, balanced by cost. */
#ifndef ZT_PARALLEL_SPLIT_H
#define ZT_PARALLEL_SPLIT_H

#include "graph/graph.h"

/* Where to cut: first[s] is the first layer of stage s, first[stages] the number of layers. A layer is what begins at a
 * node with parameters; its cost is FLOPs plus a byte term, so that nodes without arithmetic count. Fails when there
 * are more stages than layers. */
bool zt_split_choose(const struct zt_graph *g, int stages, int *first, struct zt_err *err);

/* Sets `stage` of every forward node. All graphs of a model (other batch sizes, evaluation) must be cut alike, whatever
 * their own costs, since a rank holds the weights of its layers. Fails when the graph has other layers than `first` was
 * chosen for, and when two uses of one parameter, or of one running statistic, would be on different stages. */
bool zt_split_apply(struct zt_graph *g, int stages, const int *first, struct zt_err *err);

#endif
