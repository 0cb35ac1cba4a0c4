/* LinearAttention: the geometry of a node, read from its shapes and attributes, and the reference kernels. The rows and
 * the kernels of all back ends use it. */
#ifndef ZT_OPS_LINEAR_ATTENTION_LINEAR_H
#define ZT_OPS_LINEAR_ATTENTION_LINEAR_H

#include "graph/ir/op.h"
#include "ops/linear_attention/launch_linear_attention.h"

/* Inputs of LinearAttention and, before the cotangents of its outputs, of ztrain.LinearAttentionGrad, whose outputs
 * are the gradients of these inputs in their order. */
enum { ZT_LINEAR_Q, ZT_LINEAR_K, ZT_LINEAR_V, ZT_LINEAR_PAST, ZT_LINEAR_DECAY, ZT_LINEAR_BETA, ZT_LINEAR_INS };
enum { ZT_LINEAR_DY = ZT_LINEAR_INS, ZT_LINEAR_DPRESENT, ZT_LINEAR_GRAD_INS };

/* Fails naming the input's shape and what is wanted. */
bool zt_linear_attention_shape_fail(const struct zt_graph *g, int node, int in, const char *wanted, struct zt_err *err);
/* Reads a node of either row. Every product of two of the sizes, and the workspace of every kernel, fits 62 bits. */
bool zt_linear_attention_read(const struct zt_graph *g, int node, struct zt_launch_linear *to, struct zt_err *err);
/* Numbers that a unit of work of the backward pass keeps for `columns` columns of the state: the states at the start of
 * every chunk, those of one chunk, the current state and its gradient, and two vectors a step. */
int64_t zt_linear_attention_kept(const struct zt_launch_linear *l, int64_t columns);

/* First element of head h at step t in a tensor of `heads` heads of `size` columns. */
static inline int64_t zt_linear_attention_row(const struct zt_launch_linear *l, int64_t b, int64_t t, int64_t heads,
                                              int64_t h, int64_t size) {
    return ((b * l->steps + t) * heads + h) * size;
}

/* The reference kernels of LinearAttention and ztrain.LinearAttentionGrad, for every float dtype, in double; formulas
 * are in linear_attention.c, shapes in launch_linear_attention.h. `prepare` sets the workspace. */
bool zt_linear_attention_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_linear_attention_run(const struct zt_call *call, struct zt_err *err);
bool zt_linear_attention_grad_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_linear_attention_grad_run(const struct zt_call *call, struct zt_err *err);

#endif
