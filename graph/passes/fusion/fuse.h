/* Helpers for fusion patterns and fused ops.
 *
 * A fused op computes the result of several ordinary ops; its reference kernel runs theirs one after the other. The
 * patterns that create fused nodes are rows in ops/patterns.c. */
#ifndef ZT_GRAPH_PASSES_FUSION_FUSE_H
#define ZT_GRAPH_PASSES_FUSION_FUSE_H

#include "graph/ir/op.h"
#include "graph/passes/fusion/apply_patterns.h"

/* Attributes that a fused node inherits from the node that it replaces. They were checked by that node's row. */
extern const struct zt_attr_spec zt_fused_attrs[15];

/* Whether all readers of the value are among `nodes` and the value is no output. */
bool zt_fuse_read_only_by(const struct zt_graph *g, int value, const int *nodes, int count);

/* The node that computes input `in` of `node`, if it is alive, has type `op_type` (NULL: any) and the same phase and
 * stage; else -1. `alone`: it must also have no other reader and be no output. */
int zt_fuse_producer(const struct zt_graph *g, int node, int in, const char *op_type, bool alone);

/* The first living node of type `op_type` that reads `value` as its input `in`; -1: none. */
int zt_fuse_reader(const struct zt_graph *g, int value, int in, const char *op_type);

/* Marks the producer of `value` dead if nothing reads its outputs, then in the same way the producer of its first
 * input. */
void zt_fuse_drop(struct zt_graph *g, int value);

/* Adds a node with phase, stage, place and back end of `like`. The caller then resolves and infers it with
 * zt_fuse_settle(). */
int zt_fuse_add(struct zt_graph *g, const struct zt_node *like, const struct zt_node_spec *spec);
bool zt_fuse_settle(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err);

/* `value` in another shape, for an input of `node`: the value itself or the input of its view if that has the shape,
 * else the output of a new Reshape. -1: failed. */
int zt_fuse_reshape(struct zt_graph *g, const struct zt_op_table *table, int node, int value,
                    const struct zt_shape *shape, struct zt_err *err);

/* A node of domain "ztrain" that replaces another one. */
struct zt_fused_node {
    const char *op_type;
    const int *in;
    int in_count;
    const int *out; /* NULL: the outputs of the replaced node */
    int out_count;
    const struct zt_node *like; /* its name and attributes are used; without a name, that of the replaced node */
};
/* Replaces node `old`, which is marked dead. */
bool zt_fuse_replace(struct zt_graph *g, const struct zt_op_table *table, int old, const struct zt_fused_node *with,
                     struct zt_err *err);

/* A node that has the name of `like` and its attributes except `name`. */
struct zt_node zt_fuse_attrs_without(struct zt_graph *g, const struct zt_node *like, const char *name);

/* Inputs and outputs of one step of a fused kernel. */
struct zt_fused_call {
    const struct zt_view *in;
    int in_count;
    const struct zt_view *out;
    int out_count;
};
/* Runs the reference kernel of `row` on these tensors; everything else comes from `call`. */
bool zt_fuse_run(const struct zt_call *call, const struct zt_op *row, const struct zt_fused_call *views,
                 struct zt_err *err);

#endif
