/* Launchers of pool.cu: max, average and Lp pooling and their gradients. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_POOL_LAUNCH_POOL_H
#define ZT_OPS_POOL_LAUNCH_POOL_H

#include "ops/cuda/launch.h"
#include "ops/cuda/launch_window.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pools `planes` planes of window.in to as many planes of window.out. `channels` planes are interleaved element by
 * element where the layout is channels last, else 1. */
struct zt_launch_pool {
    enum zt_dtype dtype;
    int64_t planes, channels;
    struct zt_launch_window window;
    bool count_include_pad; /* average: padding counts, except what ceil_mode adds beyond it */
    bool columns;           /* indices count a plane column by column */
    int position_bytes;     /* of a saved position: 1 or 4 */
    float p;                /* of Lp pooling */
    /* With channels > 1: the result, and dy and y of a gradient, are plain (NCHW). Only where
     * zt_launch_pool_can_transpose allows it. */
    bool plain_result, plain_dy, plain_y;
};
bool zt_launch_pool_can_transpose(const struct zt_launch_pool *pool);
/* position: of the first largest element in its window. indices: its flat index in x. Either may be NULL. */
int zt_launch_pool_max(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *x, void *y,
                       void *position, int64_t *indices);
int zt_launch_pool_average(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *x, void *y);
int zt_launch_pool_norm(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *x, void *y);
/* y: result of a ReLU behind the pool, whose gradient is 0 where y is not above 0; NULL: there is no ReLU. */
int zt_launch_pool_max_grad(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *dy,
                            const void *position, const void *y, void *dx);
/* Gradient of average pooling; average false: of the sum over a window. */
int zt_launch_pool_sum_grad(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *dy, bool average,
                            void *dx);

#ifdef __cplusplus
}
#endif

#endif
