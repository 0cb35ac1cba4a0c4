/* A model exported with a fixed batch, inferred at another.
 *
 * Numbers that the export worked out from its batch stand in constants: target shapes of Reshape and Expand, shapes of
 * initial states, repeats. The graph is inferred at the exported batch first; at the new one every value must have the
 * same shape with, at most, dims scaled by new / exported. Where one has not, the constant behind it is found:
 *
 *     Reshape   the axis of the result in which the elements of the input's batch axis lie is the one that scales
 *     Expand    the number that stands for the batch axis of the input
 *
 * Where the input of an Expand has no batch axis, and for constants that make tensors out of nothing, the numbers equal
 * to the exported batch are tried, nearest first, until inference gets past the node. Tensors with equal slices along
 * an axis of the exported batch are stretched.
 *
 * Everything else is refused with the node that fixes the batch. */
#ifndef ZT_GRAPH_PASSES_REBIND_H
#define ZT_GRAPH_PASSES_REBIND_H

#include "graph/ir/graph.h"

/* Infers `g`, whose inputs are bound to a batch of `to`, like zt_pass_infer. `reference` is the same graph inferred at
 * the exported batch `from`. */
bool zt_pass_rebind(struct zt_graph *g, const struct zt_graph *reference, int64_t from, int64_t to, size_t fold_limit,
                    struct zt_err *err);

#endif
