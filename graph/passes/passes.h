/* The passes between a file's graph and one that can be planned: each a function from graph to graph.
 *
 *     lower -> resolve -> verdicts -> tie -> bind -> infer + fold -> to float -> train mode -> loss
 *           -> fusion of the forward graph -> grad -> rewrite (casts, fusion) -> assign (back ends, layouts) */
#ifndef ZT_GRAPH_PASSES_PASSES_H
#define ZT_GRAPH_PASSES_PASSES_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

struct zt_onnx;

/* Resolves the rows of all nodes that the given values need; every op that is missing is reported at once. The other
 * nodes are dropped from this graph (they stay in the file). */
bool zt_pass_resolve(struct zt_graph *g, const struct zt_op_table *table, const int *roots, int root_count,
                     struct zt_err *err);

/* Infers dtype and shape of every value, in order, replacing nodes with bodies by what they stand for
 * (graph/passes/lower.h) and folding constant nodes on the way with their reference kernels (kept in the graph's arena,
 * at most `fold_limit` bytes a node and twice that in all, and some 10^8 operations; trainable initializers and
 * statistics are not constants). */
bool zt_pass_infer(struct zt_graph *g, size_t fold_limit, struct zt_err *err);
/* The same, with somebody looking at every node that is inferred, just before and behind it. */
struct zt_watch {
    void *with;
    bool (*before)(void *with, struct zt_graph *g, int node, struct zt_err *err);
    bool (*after)(void *with, struct zt_graph *g, int node, struct zt_err *err);
};
bool zt_pass_infer_watched(struct zt_graph *g, size_t fold_limit, const struct zt_watch *watch, struct zt_err *err);

/* Binds the unknown dims of graph input `value` to `shape`; the same dim_param gets the same number everywhere. A fixed
 * dim that differs is an error naming input, dim and both numbers. */
bool zt_pass_bind(struct zt_graph *g, int value, const struct zt_shape *shape, enum zt_exit code, struct zt_err *err);

/* Which initializers train, and why: sets trainable, statistic and why of every initializer that can be reached from
 * `loss` (or any graph output where loss is -1). The rule stands at the head of graph/passes/trainable/trainable.c.
 * `model` tells the exporter, NULL: none known. */
void zt_pass_trainable(struct zt_graph *g, const struct zt_onnx *model, int loss);

/* Each Identity of an initializer becomes an initializer of its own under the Identity's output name
 * (reference/README.md, "Merged tensors"). Recognised by its row: ZT_OP_VIEW, one input at most, no attributes. For the
 * file's whole graph, before rows are resolved and nodes that the loss does not need are dropped: an unneeded copy must
 * not change with its source. */
void zt_pass_split_aliases(struct zt_graph *g, const struct zt_op_table *table);

/* Whoever reads initializer `from` reads `to` instead, or Transpose(to, perm): they train as one. perm NULL: as it is.
 * Rows are resolved. */
bool zt_pass_tie(struct zt_graph *g, const struct zt_op_table *table, int from, int to, const int64_t *perm,
                 struct zt_err *err);

/* fp32 compute of a graph in half or double precision: after inference in the file's types (what folds, folds there),
 * every value whose type is in `types` (ZT_BIT) becomes float. contents[id] replaces an initializer's, NULL: converted
 * here. Casts that change nothing go; *root follows where it was one's output. */
bool zt_pass_to_float(struct zt_graph *g, unsigned types, const float *const *contents, int content_count, int *root,
                      struct zt_err *err);
/* A tensor of any float type as float; a finite number stays finite. */
float *zt_to_float(struct zt_arena *arena, const struct zt_tensor *from);

/* Training (or evaluation) forms of all nodes that have one. After inference: the forms are inferred as they are made.
 */
bool zt_pass_train(struct zt_graph *g, const struct zt_train_options *options, struct zt_err *err);

/* Fusion patterns are rows: `apply` looks at the node it is given and, where its pattern ends there, rewrites and
 * returns true. Numbers stay the same within rounding. `when` says on which graphs it is tried: the forward graph
 * before the gradient is built (what several nodes computed becomes one standard op, whose gradient is one node too),
 * or the joint graph of a back end that has a fast kernel for the fused node. */
enum { ZT_FUSE_FORWARD = 1 << ZT_BACKENDS }; /* beside the bits 1 << enum zt_backend */
struct zt_pattern {
    const char *name; /* one word, for ztrain.fuse */
    unsigned when;
    bool (*apply)(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err);
};
/* What may be fused: the rows whose name one of the globs fits. */
struct zt_fusion {
    const struct zt_pattern *const *patterns; /* NULL-terminated, in the order in which they are tried */
    const char *const *names;
    int name_count;
};
bool zt_fusion_allows(const struct zt_fusion *fusion, const struct zt_pattern *pattern);
/* Applies every allowed row whose `when` has the bit everywhere, the last nodes first, and adds to counts[i] the number
 * of places of row i (may be NULL). Nodes that it makes take their training or evaluation form, where `train` is not
 * NULL. */
bool zt_pass_fuse(struct zt_graph *g, const struct zt_op_table *table, const struct zt_fusion *fusion, unsigned when,
                  const struct zt_train_options *train, int *counts, struct zt_err *err);

/* Compute in a half type: float inputs of ZT_OP_HALF nodes are cast to it (one Cast a value and all its views, shared),
 * their float outputs become half and are cast back where another node, an output or a gradient needs float. Master
 * weights stay fp32. A node with a constant that would be 0 or infinite in fp16 stays in fp32. */
bool zt_pass_half_propagation(struct zt_graph *g, const struct zt_op_table *table, enum zt_dtype dtype,
                              const int *keep_float, int keep_count, struct zt_err *err);

/* Nodes over half types that `fast` has no kernel for, but would have in float, compute in float between casts, so that
 * what is stored stays half. */
bool zt_pass_compute_in_float(struct zt_graph *g, const struct zt_op_table *table, enum zt_backend fast,
                              struct zt_err *err);

/* Chooses the back end of every node (`fast` where its kernel supports it, else ZT_REF; for a device, ZT_CPU where that
 * takes the node in plain layouts), prepares kernels, and puts reorder nodes where layouts differ. Values in `plain`
 * are read by others than nodes (gradients, outputs, write-backs): where one comes out in another layout a reorder
 * follows, and its id is replaced by the plain one's. Reorders that the kernels beside them can take in go
 * (settle_layouts.c). prepared[i] belongs to node i; release with zt_assign_release. */
struct zt_prepared {
    void *state;
    void (*release)(void *state);
    size_t workspace_bytes;
    bool can_accumulate;
    unsigned free_in, free_out; /* as struct zt_prepare has them */
    struct zt_path path;
};
bool zt_pass_assign(struct zt_graph *g, const struct zt_op_table *table, enum zt_backend fast, int threads,
                    struct zt_device *device, int *plain, int plain_count, struct zt_prepared **prepared,
                    struct zt_err *err);
void zt_assign_release(const struct zt_graph *g, struct zt_prepared *prepared);

#endif
