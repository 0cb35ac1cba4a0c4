/* Launcher of einsum.cu: sums of products over any axes (ops/matmul/einsum.h). Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_MATMUL_LAUNCH_EINSUM_H
#define ZT_OPS_MATMUL_LAUNCH_EINSUM_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_LAUNCH_OPERANDS = 8 };

/* y[i] = sum over the reduced axes of the product of the operands. Strides are in elements, those of operand k in row
 * k; row `operands` has those of y, which are 0 along reduced axes. */
struct zt_launch_contraction {
    int operands, result_axes, reduced_axes;
    int64_t result_dim[ZT_MAX_RANK], result_step[ZT_LAUNCH_OPERANDS + 1][ZT_MAX_RANK];
    int64_t reduced_dim[ZT_MAX_RANK], reduced_step[ZT_LAUNCH_OPERANDS + 1][ZT_MAX_RANK];
    int64_t results, reduced; /* products of the dims */
    struct zt_launch_tensor operand[ZT_LAUNCH_OPERANDS], y;
};
int zt_launch_contraction(struct CUstream_st *stream, const struct zt_launch_contraction *c);

#ifdef __cplusplus
}
#endif

#endif
