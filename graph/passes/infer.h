/* Resolution, binding and inference: the first passes from a file's graph to a training graph.
 *
 * The passes run in this order:
 *
 *     lower -> resolve -> trainable -> tie -> bind -> infer + fold -> to float -> training forms -> loss
 *           -> fusion of the forward graph -> grad -> casts, fusion of the training graph -> assign */
#ifndef ZT_GRAPH_PASSES_INFER_H
#define ZT_GRAPH_PASSES_INFER_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* Resolves the rows of all nodes on which the values `roots` depend and drops the other nodes from the graph (the file
 * keeps them). The error lists all missing ops. */
bool zt_pass_resolve(struct zt_graph *g, const struct zt_op_table *table, const int *roots, int root_count,
                     struct zt_err *err);

/* Sets the unknown dims of graph input `value` to those of `shape`. A dim_param gets the same number in every input. A
 * fixed dim that differs is an error (exit code `code`) that names input, dim and both numbers. */
bool zt_pass_bind(struct zt_graph *g, int value, const struct zt_shape *shape, enum zt_exit code, struct zt_err *err);

/* Infers dtype and shape of every value in node order. Nodes with subgraphs (If, Loop, Scan) are replaced by ordinary
 * nodes (lower.h). Constant nodes are folded by their reference kernels into the graph's arena, up to `fold_limit`
 * bytes a node, twice that in total, and about 10^8 operations in total. Trainable initializers and running statistics
 * are not constants. */
bool zt_pass_infer(struct zt_graph *g, size_t fold_limit, struct zt_err *err);

/* Infers nodes `first` to the last one, in place: a size that depends on data is the largest that there can be, or,
 * with `most`, the copy of the graph with these sizes, one less (data_sizes.h). Folded nodes stay, marked as dead. */
bool zt_pass_infer_bounds(struct zt_graph *g, int first, const struct zt_graph *most, size_t fold_limit,
                          struct zt_err *err);

/* Callbacks before and after the inference of each node. */
struct zt_watch {
    bool bounds; /* sizes that depend on data are the largest that there can be; false: they are refused */
    void *with;  /* first argument of both */
    bool (*before)(void *with, struct zt_graph *g, int node, struct zt_err *err);
    bool (*after)(void *with, struct zt_graph *g, int node, struct zt_err *err);
};
/* zt_pass_infer() with callbacks. */
bool zt_pass_infer_watched(struct zt_graph *g, size_t fold_limit, const struct zt_watch *watch, struct zt_err *err);

/* Replaces every node that has a training or evaluation form by that form and infers it. The graph must be inferred. */
bool zt_pass_train(struct zt_graph *g, const struct zt_train_options *options, struct zt_err *err);

#endif
