/* Normalisations without a learned scale: LpNormalization, LRN, MeanVarianceNormalization (formulas in norm_slices.c).
 * The geometry comes from input 0: x, or dy of a gradient, which has the same shape. */
#ifndef ZT_OPS_NORM_SLICES_NORM_SLICES_H
#define ZT_OPS_NORM_SLICES_NORM_SLICES_H

#include "ops/kernel/axis_slices.h"

/* LpNormalization: the slices along the attribute `axis`, and p, which is 1 or 2. Errors name the node and the
 * attribute. */
bool zt_lp_read(const struct zt_graph *g, int node, struct zt_axis_slices *slices, int *p, struct zt_err *err);

/* LRN: alpha is divided by `size`, as the formula has it. */
struct zt_lrn {
    struct zt_axis_slices slices; /* along the channels */
    int64_t before, after;        /* channels in a sum on either side */
    double alpha, beta, bias;
};
/* Fails for a rank below 2 or a size below 1. */
bool zt_lrn_read(const struct zt_graph *g, int node, struct zt_lrn *to, struct zt_err *err);

/* MeanVarianceNormalization: the averaged axes and the others, each as a shape with the steps of its axes in elements.
 */
struct zt_mvn {
    struct zt_shape over, groups;
    int64_t over_step[ZT_MAX_RANK], group_step[ZT_MAX_RANK];
    bool marked[ZT_MAX_RANK]; /* by axis of x: averaged over */
};
/* Fails for an axis out of range or given twice. */
bool zt_mvn_read(const struct zt_graph *g, int node, struct zt_mvn *to, struct zt_err *err);

#endif
