/* Einsum and its gradient as one contraction, read from the node. The kernels of all back ends use it. */
#ifndef ZT_OPS_MATMUL_EINSUM_H
#define ZT_OPS_MATMUL_EINSUM_H

#include "graph/ir/op.h"

enum { ZT_EINSUM_LETTERS = 52, ZT_EINSUM_LABELS = ZT_EINSUM_LETTERS + ZT_MAX_RANK, ZT_EINSUM_OPERANDS = 8 };

/* A tensor in an equation: the label of each axis. */
struct zt_equation_term {
    int count, label[ZT_MAX_RANK];
};

/* Labels 0..ZT_EINSUM_LETTERS-1 are letters, the others axes of an ellipsis. */
struct zt_equation {
    int operands;
    struct zt_equation_term term[ZT_EINSUM_OPERANDS + 1]; /* of the operands; the output's at ZT_EINSUM_OPERANDS */
    int64_t dim[ZT_EINSUM_LABELS];                        /* 0: label not used (an axis of size 0 has -1) */
    struct zt_shape out;
};

/* Reads the equation of a node whose operands are its inputs from `first` on, bound to their shapes. */
bool zt_equation_read(const struct zt_graph *g, int node, int first, struct zt_equation *to, struct zt_err *err);

/* The first `result_axes` axes are those of the result. The result is the product of the operands, summed over the
 * other axes. step[operand][axis] counts elements, step[operands] is that of the result; 0: the tensor has no such
 * axis. */
struct zt_contraction {
    int operands, result_axes, axes;
    int in[ZT_EINSUM_OPERANDS]; /* inputs of the node */
    int64_t dim[ZT_EINSUM_LABELS], step[ZT_EINSUM_OPERANDS + 1][ZT_EINSUM_LABELS];
};

/* Einsum, or ztrain.EinsumGrad where `grad` is set. Elements of a gradient that no axis reaches are 0. */
bool zt_contraction_read(const struct zt_graph *g, int node, bool grad, struct zt_contraction *to, struct zt_err *err);

#endif
