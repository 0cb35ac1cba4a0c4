/* Reductions over a set of axes. Early opsets give the axes as an attribute, later ones as an input. No axes means all
 * axes, or, with noop_with_empty_axes, none: then only the elementwise part of the operator is computed. */
#ifndef ZT_OPS_REDUCE_REDUCE_H
#define ZT_OPS_REDUCE_REDUCE_H

#include "ops/kernel/shape.h"

/* marked[axis]: the node reduces the axis. */
bool zt_reduce_axes(const struct zt_graph *g, int node, bool marked[ZT_MAX_RANK], struct zt_err *err);

/* The description of a reduction for other back ends: the axes of input 0 in row-major order; over[axis]: the axis is
 * reduced. */
struct zt_reduction {
    int axes;
    int64_t dim[2 * ZT_MAX_RANK];
    bool over[2 * ZT_MAX_RANK];
};
bool zt_reduce_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err);

/* Gradients, in reduce_grad.c. */
bool zt_reduce_sum_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_mean_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_extreme_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_prod_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_l1_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_l2_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_log_sum_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_log_sum_exp_grad(struct zt_grad *b, int node, struct zt_err *err);
bool zt_reduce_sum_square_grad(struct zt_grad *b, int node, struct zt_err *err);

#endif
