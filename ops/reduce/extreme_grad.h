/* ztrain.ReduceExtremeGrad, the gradient of ReduceMax and ReduceMin in one node: x, y, dy -> dx. y and dy have size 1
 * along the reduced axes; ties share the gradient:
 *
 *     dx = dy m / sum m      m = [x = y], summed over the reduced axes
 */
#ifndef ZT_OPS_REDUCE_EXTREME_GRAD_H
#define ZT_OPS_REDUCE_EXTREME_GRAD_H

#include "graph/ir/op.h"

extern const struct zt_op zt_op_reduce_extreme_grad;

/* Whether the CPU's kernel takes x and y: x is float, and its reduced axes are adjacent and have at most 2^24 elements.
 */
bool zt_extreme_grad_cpu_takes(const struct zt_value *x, const struct zt_value *y);

/* The functions of ZT_EXTREME_GRAD_CPU (struct zt_kernel). `run` does not fail. */
bool zt_extreme_grad_cpu_supports(const struct zt_graph *g, int node);
bool zt_extreme_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_extreme_grad_cpu_run(const struct zt_call *call, struct zt_err *err);

#define ZT_EXTREME_GRAD_CPU                                                                                            \
    { .supports = zt_extreme_grad_cpu_supports, .prepare = zt_extreme_grad_cpu_prepare, .run = zt_extreme_grad_cpu_run }

#endif
