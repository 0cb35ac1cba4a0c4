/* Numbers that an exporter may have computed from the batch size, in a model that runs another batch (rebind.h). */
#ifndef ZT_GRAPH_PASSES_BATCH_NUMBERS_H
#define ZT_GRAPH_PASSES_BATCH_NUMBERS_H

#include "graph/ir/graph.h"

/* Names of the products and quotients in `g` of a value that was summed over the batch and a number that equals the
 * exported batch `from`, or `from` - 1: x.T @ x / x.shape[0], a variance. `reference` is the graph at the exported
 * batch; both are inferred. Such a number may also have been written as it is. Returns the count; the names are in the
 * arena of `g`. */
int zt_pass_batch_numbers(const struct zt_graph *g, const struct zt_graph *reference, int64_t from,
                          const char ***names);

#endif
