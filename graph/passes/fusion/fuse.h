/* Fused nodes: what their rows and patterns have in common. A fused row computes what a chain of ordinary rows
 * computes; its reference kernel runs theirs one after the other, and the patterns that make it are tried in the order
 * of patterns.c. */
#ifndef ZT_GRAPH_PASSES_FUSE_H
#define ZT_GRAPH_PASSES_FUSE_H

#include "graph/ir/op.h"
#include "graph/passes/fusion/apply_patterns.h"

/* Attributes that fused nodes take over from the node whose place they take; its own row has checked them. */
extern const struct zt_attr_spec zt_fused_attrs[15];

/* Whether the graph hands the value out or writes it back: it must go on being made. */
bool zt_fuse_is_output(const struct zt_graph *g, int value);

/* Whether nothing but these nodes reads the value, as often as they do. */
bool zt_fuse_read_only_by(const struct zt_graph *g, int value, const int *nodes, int count);

/* The node that makes input `in` of `node` where it is alive, is a `op_type` (NULL: any) and stands in the same phase
 * and stage, and nothing else reads what it makes there (`alone`); else -1. */
int zt_fuse_producer(const struct zt_graph *g, int node, int in, const char *op_type, bool alone);

/* The node that made a value goes where nothing reads what it made, then in the same way the one that made its first
 * input. */
void zt_fuse_drop(struct zt_graph *g, int value);

/* Adds a node that stands where `like` does: phase, stage, place and back end. zt_fuse_settle next, which resolves and
 * infers it. */
int zt_fuse_add(struct zt_graph *g, const struct zt_node *like, const char *name, const char *op_type,
                const char *domain, int opset, const int *in, int in_count, const int *out, int out_count);
bool zt_fuse_settle(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err);

/* The value in another shape, for `node`: itself or what it is a view of where that has the shape, else what a new
 * Reshape makes; -1: failed. */
int zt_fuse_reshape(struct zt_graph *g, const struct zt_op_table *table, int node, int value,
                    const struct zt_shape *shape, struct zt_err *err);

/* Puts a ztrain node in the place of `old` (which dies): it makes old's outputs, or those at `out`, and has the
 * attributes of `like`. */
bool zt_fuse_replace(struct zt_graph *g, const struct zt_op_table *table, int old, const char *op_type, const int *in,
                     int in_count, const int *out, int out_count, const struct zt_node *like, struct zt_err *err);

/* A node without a name whose attributes are those of `like` but for the one called `name`. */
struct zt_node zt_fuse_attrs_without(struct zt_graph *g, const struct zt_node *like, const char *name);

/* Runs `row`'s reference kernel on these inputs and outputs in place of the call's. */
bool zt_fuse_run(const struct zt_call *call, const struct zt_op *row, const struct zt_view *in, int in_count,
                 const struct zt_view *out, int out_count, struct zt_err *err);

#endif
