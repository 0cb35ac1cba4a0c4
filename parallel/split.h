/* Which pipeline stage runs which node: contiguous ranges of the forward order, balanced by cost. */
#ifndef ZT_PARALLEL_SPLIT_H
#define ZT_PARALLEL_SPLIT_H

#include "graph/graph.h"

/* Sets `stage` of every forward node. Cost is FLOPs plus a byte term, so that nodes without arithmetic count; nodes
 * between two that hold parameters stay with the earlier. Fails when there are more stages than nodes with parameters
 * ("layers"), and when the cut would put two uses of one parameter on different stages. */
bool zt_split_stages(struct zt_graph *g, int stages, struct zt_err *err);

#endif
