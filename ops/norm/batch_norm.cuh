/* Shared by the batch normalisation kernels of whole channels (norm.cu) and of rows of channels (batch_norm_rows.cu).
 */
#ifndef ZT_OPS_NORM_BATCH_NORM_CUH
#define ZT_OPS_NORM_BATCH_NORM_CUH

#include "ops/cuda/tensor.cuh"
#include "ops/norm/launch_batch_norm.h"

static __device__ inline float running(float old, float batch, float momentum) {
    return old * momentum + batch * (1 - momentum);
}

/* Writes the running statistics and those of the batch. */
static __device__ inline void put_statistics(const struct zt_launch_batch_norm &n,
                                             const struct zt_launch_batch_norm_tensors &t, int64_t c, float mean,
                                             float var, float inv_std) {
    if (t.new_mean.data)
        put(t.new_mean, c, running(get(t.mean, c), mean, n.momentum));
    if (t.new_var.data)
        put(t.new_var, c, running(get(t.var, c), var, n.momentum));
    put(t.batch_mean, c, mean);
    put(t.inv_std, c, n.keeps_var ? var : inv_std);
}

static __device__ inline float inv_std_of(const struct zt_launch_batch_norm &n,
                                          const struct zt_launch_batch_norm_grad &g, int64_t c) {
    const float kept = get(g.inv_std, c);
    return n.fixed ? 1 / sqrtf(kept + n.epsilon) : kept;
}

/* ReLU and its gradient; NaN passes. */
static __device__ inline float relu_of(float x) {
    return x <= 0 ? 0 : x;
}
static __device__ inline float masked_by(float dy, float y) {
    return y <= 0 ? 0 : dy;
}

/* Of rows [n, channels] that n->parts blocks share (batch_norm_rows.cu). */
extern "C" {
int launch_batch_norm_rows(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                           const struct zt_launch_batch_norm_tensors *t, float *workspace);
int launch_batch_norm_rows_grad(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                                const struct zt_launch_batch_norm_grad *g, float *workspace);
}

#endif
