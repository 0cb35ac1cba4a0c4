/* Launchers of grid_sample.cu: GridSample and AffineGrid (ops/resample/grid_sample.c, affine_grid.c) and their
 * gradients. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_RESAMPLE_LAUNCH_GRID_SAMPLE_H
#define ZT_OPS_RESAMPLE_LAUNCH_GRID_SAMPLE_H

#include "ops/cuda/launch.h"
#include "ops/resample/sample_taps.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_LAUNCH_SAMPLE_AXES = 3, ZT_LAUNCH_SAMPLE_BLOCK = 64 };

/* Taps along one axis, as struct zt_sample_taps; as many as the mode has. */
struct zt_launch_taps {
    int32_t offset[ZT_SAMPLE_TAPS];
    float weight[ZT_SAMPLE_TAPS], slope[ZT_SAMPLE_TAPS];
};
static inline int64_t zt_launch_sample_blocks(const struct zt_sampler *s) {
    return (s->places + ZT_LAUNCH_SAMPLE_BLOCK - 1) / ZT_LAUNCH_SAMPLE_BLOCK;
}
/* Bytes of the workspace: the taps of every axis of every place, then the first and the last pixel that each block of
 * places of a sample reads. */
static inline size_t zt_launch_sample_bytes(const struct zt_sampler *s) {
    return (size_t)(s->n * s->places * s->axes) * sizeof(struct zt_launch_taps) +
           (size_t)(s->n * zt_launch_sample_blocks(s)) * 2 * sizeof(int32_t);
}
/* At most ZT_LAUNCH_SAMPLE_AXES axes and INT32_MAX pixels. */
int zt_launch_grid_sample(struct CUstream_st *stream, const struct zt_sampler *s, struct zt_launch_tensor x,
                          struct zt_launch_tensor grid, struct zt_launch_tensor y, void *workspace);
/* dx and dgrid may be NULL. */
struct zt_launch_sample_grad {
    struct zt_launch_tensor dy, x, grid, dx, dgrid;
};
int zt_launch_grid_sample_grad(struct CUstream_st *stream, const struct zt_sampler *s,
                               const struct zt_launch_sample_grad *g, void *workspace);

/* AffineGrid of `places` places of two or three axes. */
struct zt_launch_affine_grid {
    int axes;
    int64_t batch, dim[ZT_LAUNCH_SAMPLE_AXES], places;
    bool align_corners;
};
int zt_launch_affine_grid(struct CUstream_st *stream, const struct zt_launch_affine_grid *g,
                          struct zt_launch_tensor theta, struct zt_launch_tensor grid);
int zt_launch_affine_grid_grad(struct CUstream_st *stream, const struct zt_launch_affine_grid *g,
                               struct zt_launch_tensor dgrid, struct zt_launch_tensor dtheta);

#ifdef __cplusplus
}
#endif

#endif
