/* Launchers of norm_slices.cu: LRN, MeanVarianceNormalization and LpNormalization with their gradients. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_NORM_SLICES_LAUNCH_NORM_SLICES_H
#define ZT_OPS_NORM_SLICES_LAUNCH_NORM_SLICES_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* LRN of [outer, channels, inner]: the sum of a channel covers `before` channels before it and `after` behind it. */
struct zt_launch_lrn {
    int64_t outer, channels, inner, before, after;
    float alpha, beta, bias;
};
int zt_launch_lrn(struct CUstream_st *stream, const struct zt_launch_lrn *n, struct zt_launch_tensor x,
                  struct zt_launch_tensor y);
/* slope: workspace of one float an element. */
int zt_launch_lrn_grad(struct CUstream_st *stream, const struct zt_launch_lrn *n, struct zt_launch_tensor dy,
                       struct zt_launch_tensor x, struct zt_launch_tensor dx, float *slope);

/* MeanVarianceNormalization: each of `groups` groups of `reduced` elements has its own statistics. Strides are in
 * elements. */
struct zt_launch_mvn {
    int group_axes, reduced_axes;
    int64_t group_dim[ZT_MAX_RANK], group_step[ZT_MAX_RANK], reduced_dim[ZT_MAX_RANK], reduced_step[ZT_MAX_RANK];
    int64_t groups, reduced; /* products of the dims */
};
/* dy absent: y is the result. dy present: y is dx. */
int zt_launch_mvn(struct CUstream_st *stream, const struct zt_launch_mvn *n, struct zt_launch_tensor dy,
                  struct zt_launch_tensor x, struct zt_launch_tensor y);

/* LpNormalization of [outer, length, inner] along the axis of `length`. */
struct zt_launch_lp {
    int power; /* 1 or 2 */
    bool grad;
    int64_t outer, length, inner;
};
/* Forward: y of x = a; b is not read. Gradient: y = dx of a = dy and b = x. */
int zt_launch_lp(struct CUstream_st *stream, const struct zt_launch_lp *n, struct zt_launch_tensor a,
                 struct zt_launch_tensor b, struct zt_launch_tensor y);

#ifdef __cplusplus
}
#endif

#endif
