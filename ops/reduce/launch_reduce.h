/* Launchers of reduce.cu: reductions over any axes. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_REDUCE_LAUNCH_REDUCE_H
#define ZT_OPS_REDUCE_LAUNCH_REDUCE_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zt_launch_fold {
    ZT_FOLD_SUM,
    ZT_FOLD_MEAN,
    ZT_FOLD_LOG_SUM,
    ZT_FOLD_LOG_SUM_EXP,
    ZT_FOLD_L1,
    ZT_FOLD_L2,
    ZT_FOLD_SUM_SQUARE,
    ZT_FOLD_PRODUCT,
    ZT_FOLD_MAX,
    ZT_FOLD_MIN
};

/* y[i] = reduction of the elements of x that belong to result i. Result axes and reduced axes have strides in x, in
 * elements. Several blocks may share a result: each reduces one of its `parts`. */
struct zt_launch_reduce {
    enum zt_launch_fold fold;
    int result_axes, reduced_axes; /* 0: one element */
    int64_t result_dim[ZT_MAX_RANK], result_step[ZT_MAX_RANK], reduced_dim[ZT_MAX_RANK], reduced_step[ZT_MAX_RANK];
    int64_t results, reduced; /* products of the dims */
    int64_t parts;            /* of a result, from zt_launch_reduce_parts */
    bool accumulate;          /* y += the reduction */
    unsigned *arrived;        /* zeroed counters of the device (device/cuda.h); needed where parts > 1 */
};
int64_t zt_launch_reduce_parts(const struct zt_launch_reduce *r);
/* y has x's dtype; of sums also ZT_FLOAT. partial: results * parts floats; needed where parts > 1. */
int zt_launch_reduce(struct CUstream_st *stream, const struct zt_launch_reduce *r, struct zt_launch_tensor x,
                     struct zt_launch_tensor y, float *partial);

/* y[outer, inner] = (accumulate ? y : 0) + sum over k of x[outer, k, inner]. */
struct zt_launch_sum {
    int64_t outer, length, inner;
};
int zt_launch_sum(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_sum *shape, const void *x,
                  void *y, bool accumulate);

#ifdef __cplusplus
}
#endif

#endif
