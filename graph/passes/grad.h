/* Autograd: graph -> graph. Appends backward nodes for a scalar (or, for grad's vector-Jacobian product, any outputs
 * with given cotangents) and says which value is whose gradient.
 *
 * Worked example: y = relu(x w), loss = mean(y), wanted: w.
 *
 *     forward   z = MatMul(x, w)    y = Relu(z)              loss = ReduceMean(y)
 *     backward  dw = MatMul(x^T, dz)   dz = ReluGrad(dy, y)   dy = ReduceMean's rule(dloss)          <- read right to
 * left
 *
 * A value used k times gets k contributions, added one by one as the rules give them: the last use first. Rules only
 * emit nodes; emitted nodes are resolved and inferred at once, so a rule may look at the shape of what it just emitted.
 */
#ifndef ZT_GRAPH_PASSES_GRAD_H
#define ZT_GRAPH_PASSES_GRAD_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* A gradient to start from: value and the id of its cotangent (same shape and dtype). */
struct zt_cotangent {
    int value, cotangent;
};

/* Appends the backward nodes (phase ZT_BACKWARD). grads[i] becomes the gradient value of wanted[i], -1 where no path
 * leads to it. */
bool zt_grad_build(struct zt_graph *g, const struct zt_op_table *table, const struct zt_cotangent *from, int from_count,
                   const int *wanted, int wanted_count, int *grads, struct zt_err *err);

/* ---- for grad rules ---- */

/* The graph that is being extended. */
struct zt_graph *zt_grad_graph(struct zt_grad *b);
/* Id of the gradient of output `out` of `node`, -1: no path from the loss (treat as zero; at least one output has one).
 */
int zt_grad_out(struct zt_grad *b, int node, int out);
/* Same, but a tensor of zeros is made where there is none. */
int zt_grad_out_or_zero(struct zt_grad *b, int node, int out);
/* Whether input `in` of `node` is there, is float and leads to something wanted. */
bool zt_grad_wanted(struct zt_grad *b, int node, int in);
/* Hands over one contribution to the gradient of input `in`. Same shape and dtype as the input (use
 * zt_grad_unbroadcast). */
void zt_grad_give(struct zt_grad *b, int node, int in, int gradient);

/* Emits a node with one output and returns the output's id; on failure -1 (the error is kept and reported by
 * zt_grad_build, so that rules need no checks: emitting on a -1 input that came from a failure is harmless). Inputs end
 * with the count; -1 = omitted. */
int zt_emit(struct zt_grad *b, const char *op_type, const char *domain, const int *in, int in_count);
#define ZT_EMIT(b, op, ...)                                                                                            \
    zt_emit((b), (op), "", (const int[]){ __VA_ARGS__ }, (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))
#define ZT_EMIT_OWN(b, op, ...)                                                                                        \
    zt_emit((b), (op), "ztrain", (const int[]){ __VA_ARGS__ },                                                         \
            (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))
/* The general form: attributes are copied from `like` (may be NULL) and then `attrs`; `out_count` outputs, ids to
 * `out`. */
bool zt_emit_node(struct zt_grad *b, const char *op_type, const char *domain, const int *in, int in_count,
                  const struct zt_node *like, const struct zt_attr *attrs, int attr_count, int *out, int out_count);
/* Constants. */
int zt_emit_ints(struct zt_grad *b, const int64_t *values, int count);
int zt_emit_float(struct zt_grad *b, enum zt_dtype dtype, double value); /* rank 0 */
int zt_emit_zeros_like(struct zt_grad *b, int value);
/* Sums `gradient` over the axes that broadcasting added to or stretched from `like`'s shape, and reshapes to it. */
int zt_grad_unbroadcast(struct zt_grad *b, int gradient, int like);
/* Reshape `value` to the shape of `like` (nothing is emitted where they agree). */
int zt_emit_reshape_like(struct zt_grad *b, int value, int like);
int zt_emit_transpose(struct zt_grad *b, int value, const int64_t *perm, int rank);
int zt_emit_cast_like(struct zt_grad *b, int value, int like);

#endif
