/* Launcher of the folds over axes: what reduce.cu gives reduce_cuda.c. As launch.h says. */
#ifndef ZT_OPS_REDUCE_LAUNCH_REDUCE_H
#define ZT_OPS_REDUCE_LAUNCH_REDUCE_H

#include "graph/ir/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

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

/* y[i] = fold of x over the `over` elements that belong to result i; both sides are walked by steps in x. */
struct zt_launch_reduce {
    enum zt_launch_fold fold;
    int kept_axes, over_axes; /* 0: one element */
    int64_t kept_dim[ZT_MAX_RANK], kept_step[ZT_MAX_RANK], over_dim[ZT_MAX_RANK], over_step[ZT_MAX_RANK];
    int64_t kept, over, parts; /* products of the dims; parts of a result, from zt_launch_reduce_parts */
    bool accumulate;           /* y += what is found */
    unsigned *arrived;         /* counters of the device (device/cuda.h), asked for where parts > 1 */
};
int64_t zt_launch_reduce_parts(const struct zt_launch_reduce *r);
/* dtype, y_dtype: of x and y; other than x's only ZT_FLOAT, for sums. partial: kept * parts floats, where parts > 1. */
int zt_launch_reduce(struct CUstream_st *stream, enum zt_dtype dtype, enum zt_dtype y_dtype,
                     const struct zt_launch_reduce *r, const void *x, void *y, float *partial);

#ifdef __cplusplus
}
#endif

#endif
