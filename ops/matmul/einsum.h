/* What an Einsum node or its gradient computes: shared by the kernels. */
#ifndef ZT_OPS_MATMUL_EINSUM_H
#define ZT_OPS_MATMUL_EINSUM_H

#include "graph/ir/op.h"

enum { ZT_EINSUM_LETTERS = 52, ZT_EINSUM_LABELS = ZT_EINSUM_LETTERS + ZT_MAX_RANK, ZT_EINSUM_OPERANDS = 8 };

/* The result is the sum over the axes from `kept` on of the product of the operands; the axes before are its own. Steps
 * count elements, by operand, the result's behind them; 0: the tensor does not change along that axis. */
struct zt_contraction {
    int operands, kept, axes;
    int in[ZT_EINSUM_OPERANDS]; /* inputs of the node */
    int64_t dim[ZT_EINSUM_LABELS], step[ZT_EINSUM_OPERANDS + 1][ZT_EINSUM_LABELS];
};

/* Einsum; `grad`: ztrain.EinsumGrad, whose result is 0 wherever no axis leads. */
bool zt_contraction_read(const struct zt_graph *g, int node, bool grad, struct zt_contraction *to, struct zt_err *err);

#endif
