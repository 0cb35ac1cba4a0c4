/* Launchers of axis_slices.cu: ArgMax and ArgMin, CumSum and CumProd, TopK. A tensor is [outer, length, inner]; a slice
 * is the `length` elements of one pair (outer, inner). x is float, half, int32 or int64. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_REDUCE_LAUNCH_AXIS_SLICES_H
#define ZT_OPS_REDUCE_LAUNCH_AXIS_SLICES_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[outer, inner], int64: index of the largest element of a slice; of equal elements the first. NaN is larger and
 * smaller than any number. */
struct zt_launch_extreme {
    int64_t outer, length, inner;
    bool least; /* of the smallest element */
    bool last;  /* of equal elements the last */
};
int zt_launch_extreme(struct CUstream_st *stream, const struct zt_launch_extreme *e, struct zt_launch_tensor x,
                      int64_t *y);

/* y = running sum of x along a slice. */
struct zt_launch_cumulate {
    int64_t outer, length, inner;
    bool product;   /* running product */
    bool exclusive; /* y[k] leaves out x[k] */
    bool reverse;   /* from the last element to the first */
};
int zt_launch_cumulate(struct CUstream_st *stream, const struct zt_launch_cumulate *c, struct zt_launch_tensor x,
                       struct zt_launch_tensor y);

/* The k largest elements of every slice in descending order, and their indices, in the order of ops/reduce/top_k.c.
 * values and places are [outer, k, inner]; either may be NULL. */
struct zt_launch_top_k {
    int64_t outer, length, inner, k;
    bool least; /* the k smallest, in ascending order */
};
int zt_launch_top_k(struct CUstream_st *stream, const struct zt_launch_top_k *t, struct zt_launch_tensor x,
                    void *values, int64_t *places);

#ifdef __cplusplus
}
#endif

#endif
