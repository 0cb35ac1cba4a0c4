/* Changes the batch size of a model that was exported with a fixed batch.
 *
 * Such a model contains constants that the exporter computed from the batch size: target shapes of Reshape and Expand,
 * shapes of initial states, repeats. `reference` is the graph inferred at the exported batch. At the new batch every
 * value must have the reference's shape, except that dims may scale by new / exported. For a value that does not, the
 * constant that determines its shape is found and changed:
 *
 *     Reshape   the target dim that holds the elements of the input's batch axis is scaled
 *     Expand    the target dim of the input's batch axis is scaled
 *
 * For an Expand whose input has no batch axis, and for ops that create tensors, the pass tries the numbers equal to the
 * exported batch, nearest first, until inference of the node succeeds. A constant tensor whose slices along an axis of
 * the exported batch size, or of a multiple of it, are equal is repeated or shortened along that axis.
 *
 * Where sizes depend on data (data_sizes.h), this is done for the largest sizes at both batches, and the changed
 * constants are given to the nodes, which are then inferred as usual.
 *
 * In all other cases the error names the node that fixes the batch. */
#ifndef ZT_GRAPH_PASSES_REBIND_H
#define ZT_GRAPH_PASSES_REBIND_H

#include "graph/ir/graph.h"

struct zt_rebinding {
    const struct zt_graph *exported;  /* the graph with its inputs bound to the exported batch, not inferred */
    const struct zt_graph *reference; /* the same, inferred */
    int64_t from, to;                 /* the exported batch and that of g */
    const char *per_sample; /* a value that has a row for each sample, if its rows follow the batch; or NULL */
    size_t fold_limit;      /* as zt_pass_infer() takes it */
};

/* zt_pass_infer() for `g`, whose inputs are bound to batch `to`. */
bool zt_pass_rebind(struct zt_graph *g, const struct zt_rebinding *rebinding, struct zt_err *err);

#endif
