/* Automatic differentiation: appends backward nodes to a graph.
 *
 * The pass starts from cotangents of some values (of the loss, or of any outputs for a vector-Jacobian product) and
 * returns the gradient value of each requested value.
 *
 * Worked example: y = relu(x w), loss = mean(y), gradient requested: w.
 *
 *     forward   z = MatMul(x, w)       y = Relu(z)             loss = ReduceMean(y)
 *     backward  dw = MatMul(x^T, dz)   dz = ReluGrad(dy, y)    dy = rule of ReduceMean(dloss)
 *
 * The nodes of the backward row are appended from right to left. A value with k uses receives k contributions, added
 * one by one, last use first. Gradient rules only emit nodes; each emitted node is resolved and inferred at once, so a
 * rule can read the shape of a value that it has emitted. */
#ifndef ZT_GRAPH_PASSES_GRAD_H
#define ZT_GRAPH_PASSES_GRAD_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* A gradient to start from: a value and its cotangent (value id; same shape and dtype). */
struct zt_cotangent {
    int value, cotangent;
};

struct zt_grad_request {
    const struct zt_cotangent *from;
    int from_count;
    const int *wanted; /* values whose gradients are requested */
    int wanted_count;
    bool central; /* at a kink the mean of both sides, as a central difference gives it; else what PyTorch gives */
};

/* Appends the backward nodes (phase ZT_BACKWARD). grads[i] becomes the gradient of wanted[i]; -1: no differentiable
 * path leads to it. */
bool zt_grad_build(struct zt_graph *g, const struct zt_op_table *table, const struct zt_grad_request *request,
                   int *grads, struct zt_err *err);

/* ---- for gradient rules ---- */

/* Whether the request is central. */
bool zt_grad_is_central(const struct zt_grad *b);
/* The graph that receives the backward nodes. */
struct zt_graph *zt_grad_graph(struct zt_grad *b);
/* Gradient of output `out` of `node`; -1: no path to the loss (a zero gradient). At least one output has a gradient. */
int zt_grad_out(struct zt_grad *b, int node, int out);
/* The same, but emits a tensor of zeros instead of returning -1. */
int zt_grad_out_or_zero(struct zt_grad *b, int node, int out);
/* Whether the rule must give a gradient for input `in` of `node`: the input exists, is float, and depends on a
 * requested value. */
bool zt_grad_wanted(struct zt_grad *b, int node, int in);
/* Adds one contribution to the gradient of input `in`. `gradient` must have the input's shape and dtype (see
 * zt_grad_unbroadcast). */
void zt_grad_give(struct zt_grad *b, int node, int in, int gradient);

/* Emits a node with one output and returns the output's id; -1 on failure. zt_grad_build() reports the error, so rules
 * need no checks: a node with an input of a failed emission is not emitted. Input -1: omitted. */
int zt_emit(struct zt_grad *b, const char *op_type, const char *domain, const int *in, int in_count);
/* zt_emit() with the inputs as arguments. A macro because a function cannot count its variable arguments. */
#define ZT_EMIT(b, op, ...)                                                                                            \
    zt_emit((b), (op), "", (const int[]){ __VA_ARGS__ }, (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))
/* The same in the domain "ztrain". */
#define ZT_EMIT_OWN(b, op, ...)                                                                                        \
    zt_emit((b), (op), "ztrain", (const int[]){ __VA_ARGS__ },                                                         \
            (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))
/* A node to emit. Its attributes are those of `like`, then `attrs`, which replace attributes of the same name. */
struct zt_emission {
    const char *op_type, *domain;
    const int *in; /* value ids; -1: omitted */
    int in_count;
    const struct zt_node *like; /* NULL: none */
    const struct zt_attr *attrs;
    int attr_count;
};
/* Emits a node with `out_count` new outputs and writes their ids to `out`; -1 each on failure. */
bool zt_emit_node(struct zt_grad *b, const struct zt_emission *node, int *out, int out_count);
/* Constants. */
int zt_emit_ints(struct zt_grad *b, const int64_t *values, int count);   /* 1-D int64 */
int zt_emit_float(struct zt_grad *b, enum zt_dtype dtype, double value); /* rank 0 */
int zt_emit_zeros_like(struct zt_grad *b, int value);
/* Sums `gradient` over the axes that broadcasting added to or expanded in the shape of `like`, and reshapes the result
 * to that shape. */
int zt_grad_unbroadcast(struct zt_grad *b, int gradient, int like);
/* `value` in the shape of `like`; `value` itself when the shapes are equal. */
int zt_emit_reshape_like(struct zt_grad *b, int value, int like);
int zt_emit_transpose(struct zt_grad *b, int value, const int64_t *perm, int rank);
/* `value` in the dtype of `like`; `value` itself when the dtypes are equal. */
int zt_emit_cast_like(struct zt_grad *b, int value, int like);

#endif
