/* Removal of reorder nodes after all kernels are prepared. */
#ifndef ZT_GRAPH_PASSES_ASSIGN_SETTLE_LAYOUTS_H
#define ZT_GRAPH_PASSES_ASSIGN_SETTLE_LAYOUTS_H

#include "graph/passes/assign/prepare_kernel.h"

/* Removes a reorder node when its producer can write the other layout or its readers can read the original one. A view
 * that copies because its input is not plain becomes a view again when its producer can write plain order. The order of
 * nodes stays; removed nodes are marked dead. */
bool zt_settle_layouts(struct zt_assignment *a);

#endif
