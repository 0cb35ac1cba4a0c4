/* Reductions over a set of axes. Axes are an attribute in old opsets, an input in new ones; none means all, or, with
 * noop_with_empty_axes, an empty set (then only the elementwise part of the op is done). */
#ifndef ZT_OPS_REDUCE_REDUCE_H
#define ZT_OPS_REDUCE_REDUCE_H

#include "ops/kernel/shape.h"

/* Marks the axes that node reduces. */
bool zt_reduce_axes(const struct zt_graph *g, int node, bool marked[ZT_MAX_RANK], struct zt_err *err);

/* What a row of folds over axes tells other back ends: the axes of input 0 as it lies, row-major, some of which are
 * folded away. */
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
