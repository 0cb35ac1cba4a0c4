/* Launchers of max_unpool.cu: MaxUnpool and its gradient. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_POOL_LAUNCH_MAX_UNPOOL_H
#define ZT_OPS_POOL_LAUNCH_MAX_UNPOOL_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y is 0 except y[index] = x. Of elements with the same index the last counts; an index outside goes nowhere. An index
 * is flat in the shape `inner`, which lies in the corner of y with strides `step`. Fewer than 2^31 elements. */
struct zt_launch_unpool {
    int axes;
    int64_t inner[ZT_MAX_RANK], step[ZT_MAX_RANK];
    int64_t elems, inner_elems, whole_elems; /* of x, of the shape `inner`, of y */
};
/* last: workspace of one number an element of y, zeros. x of any dtype, y of the same. */
int zt_launch_unpool(struct CUstream_st *stream, const struct zt_launch_unpool *u, struct zt_launch_tensor x,
                     const int64_t *index, void *y, int32_t *last);
/* dx = dy[index], 0 for an index outside. dy of any dtype, dx of the same. */
int zt_launch_unpool_grad(struct CUstream_st *stream, const struct zt_launch_unpool *u, struct zt_launch_tensor dy,
                          const int64_t *index, void *dx);

#ifdef __cplusplus
}
#endif

#endif
