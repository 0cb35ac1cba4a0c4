/* Assignment: chooses the back end of every node, prepares its kernel and inserts reorder nodes between layouts.
 *
 * A node runs on `fast` where that back end supports it, else on ZT_REF. With a device as `fast`, a node without a
 * device kernel runs on ZT_CPU if ZT_CPU takes it in plain layouts. Reorder nodes that the neighbouring kernels make
 * unnecessary are removed afterwards (settle_layouts.h). */
#ifndef ZT_GRAPH_PASSES_ASSIGN_ASSIGN_H
#define ZT_GRAPH_PASSES_ASSIGN_ASSIGN_H

#include "graph/passes/assign/prepare_kernel.h"

/* Inputs of the assignment besides the graph. */
struct zt_assign_options {
    const struct zt_op_table *table;
    enum zt_backend fast;
    int threads;              /* compute threads of a kernel, at most */
    struct zt_device *device; /* NULL on the host */
};

/* `plain` lists values that are read outside the graph's nodes (gradients, outputs, write-backs); -1: none. Where such
 * a value has another layout, a reorder node is inserted and plain[i] becomes the id of the row-major value.
 * (*prepared)[i] belongs to node i; the caller releases it with zt_assign_release. */
bool zt_pass_assign(struct zt_graph *g, const struct zt_assign_options *options, int *plain, int plain_count,
                    struct zt_prepared **prepared, struct zt_err *err);
void zt_assign_release(const struct zt_graph *g, struct zt_prepared *prepared);

#endif
