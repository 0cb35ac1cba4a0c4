/* Launchers of RotaryEmbedding (ops/attention/rotary.c) and of the gradient of its caches: what rotary.cu gives
 * rotary_cuda.c. As launch_rows.h says. A position outside the caches makes what it turns NaN: a kernel cannot report
 * it. */
#ifndef ZT_OPS_ATTENTION_LAUNCH_ROTARY_H
#define ZT_OPS_ATTENTION_LAUNCH_ROTARY_H

#include "ops/cuda/launch_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a node computes (zt_rotary_read of rotary.h). */
struct zt_launch_rotary {
    int64_t batch, heads, rows, size, half;
    int64_t batch_step, head_step, row_step; /* elements of x */
    int64_t angles;                          /* rows of the caches */
    bool interleaved;
};
/* position: [batch, rows], NULL: row (b, s) of the caches is that of place (b, s). */
int zt_launch_rotary(struct CUstream_st *stream, const struct zt_launch_rotary *r, struct zt_launch_tensor x,
                     struct zt_launch_tensor cos, struct zt_launch_tensor sin, const int64_t *position,
                     struct zt_launch_tensor y);
/* dcos and dsin [angles, half]; each may be NULL. */
int zt_launch_rotary_cache_grad(struct CUstream_st *stream, const struct zt_launch_rotary *r, struct zt_launch_tensor x,
                                struct zt_launch_tensor dy, const int64_t *position, struct zt_launch_tensor dcos,
                                struct zt_launch_tensor dsin);

#ifdef __cplusplus
}
#endif

#endif
