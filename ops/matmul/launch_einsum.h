/* Launcher of sums of products over any axes (ops/matmul/einsum.h): what einsum.cu gives einsum_cuda.c. As
 * launch_rows.h says.
 */
#ifndef ZT_OPS_MATMUL_LAUNCH_EINSUM_H
#define ZT_OPS_MATMUL_LAUNCH_EINSUM_H

#include "ops/cuda/launch_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_LAUNCH_OPERANDS = 8 };

/* y[i] = sum over the axes `over` of the product of the operands; steps by operand, the result's behind them. */
struct zt_launch_contraction {
    int operands, kept_axes, over_axes;
    int64_t kept_dim[ZT_MAX_RANK], kept_step[ZT_LAUNCH_OPERANDS + 1][ZT_MAX_RANK];
    int64_t over_dim[ZT_MAX_RANK], over_step[ZT_LAUNCH_OPERANDS + 1][ZT_MAX_RANK]; /* the result's: 0 */
    int64_t kept, over;                                                            /* products of the dims */
    struct zt_launch_tensor operand[ZT_LAUNCH_OPERANDS], y;
};
int zt_launch_contraction(struct CUstream_st *stream, const struct zt_launch_contraction *c);

#ifdef __cplusplus
}
#endif

#endif
