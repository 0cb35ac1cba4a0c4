/* Launchers of rotary.cu: RotaryEmbedding (ops/attention/rotary.c) and the gradient of its caches. A position outside
 * the caches makes what it rotates NaN. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_ATTENTION_LAUNCH_ROTARY_H
#define ZT_OPS_ATTENTION_LAUNCH_ROTARY_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The geometry of a node (zt_rotary_read of rotary.h). */
struct zt_launch_rotary {
    int64_t batch, heads, rows, size, half;
    int64_t batch_step, head_step, row_step; /* strides of x in elements */
    int64_t angles;                          /* rows of the caches */
    bool interleaved;
};
/* cos and sin are [angles, half]. position [batch, rows] NULL: row (b, s) uses entry b * rows + s of the caches. */
struct zt_launch_rotary_tensors {
    struct zt_launch_tensor x, cos, sin, y;
    const int64_t *position;
};
int zt_launch_rotary(struct CUstream_st *stream, const struct zt_launch_rotary *r,
                     const struct zt_launch_rotary_tensors *t);
/* dcos and dsin are [angles, half]; either may be absent. */
struct zt_launch_rotary_cache_grad {
    struct zt_launch_tensor x, dy, dcos, dsin;
    const int64_t *position;
};
int zt_launch_rotary_cache_grad(struct CUstream_st *stream, const struct zt_launch_rotary *r,
                                const struct zt_launch_rotary_cache_grad *g);

#ifdef __cplusplus
}
#endif

#endif
