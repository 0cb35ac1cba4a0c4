/* Launchers of layer, RMS, instance and group normalisation in norm.cu. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_NORM_LAUNCH_NORM_H
#define ZT_OPS_NORM_LAUNCH_NORM_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Members as in struct zt_norm of ops/norm/norm.h. */
struct zt_launch_norm {
    int64_t rows, length, period, per_row, per_scale;
    bool centred;
    float epsilon;
    bool last; /* x, y and their gradients are [rows / period][per_scale][period][per_row] */
};
/* y absent: the statistics alone. mean and inv_std may be absent. */
struct zt_launch_norm_tensors {
    struct zt_launch_tensor x, scale, bias, y, mean, inv_std;
};
/* Whether a warp holds a row of this type: there x is read once. */
bool zt_launch_norm_is_short(const struct zt_launch_norm *n, enum zt_dtype dtype);
int zt_launch_norm(struct CUstream_st *stream, const struct zt_launch_norm *n, const struct zt_launch_norm_tensors *t);

/* dx, dscale and dbias may be absent. dmean and dinv_std are gradients of the saved statistics and may be absent. */
struct zt_launch_norm_grad {
    struct zt_launch_tensor dy, x, scale, mean, inv_std, dmean, dinv_std, dx, dscale, dbias;
    int64_t parts;     /* from zt_launch_norm_grad_parts: blocks that share the sums of an entry of scale */
    unsigned *arrived; /* zeroed counters of the device (device/cuda.h); needed where parts > 1 */
};
int64_t zt_launch_norm_grad_parts(const struct zt_launch_norm *n);
/* workspace: 2 * parts floats an entry of scale; needed where parts > 1. */
int zt_launch_norm_grad(struct CUstream_st *stream, const struct zt_launch_norm *n, const struct zt_launch_norm_grad *g,
                        float *workspace);

#ifdef __cplusplus
}
#endif

#endif
