/* LRN, MeanVarianceNormalization and LpNormalization with their gradients (formulas: ops/norm_slices/norm_slices.c). */
#include "ops/norm_slices/launch_norm_slices.h"
#include "ops/cuda/tensor.cuh"

/* ---- LRN: a thread an element ---- */

static __device__ float sum_at(const struct zt_launch_lrn &n, const struct zt_launch_tensor &x, int64_t i) {
    const int64_t c = i / n.inner % n.channels;
    const int64_t first = c > n.before ? -n.before : -c, last = c + n.after < n.channels ? n.after : n.channels - 1 - c;
    float sum = 0;
    for (int64_t k = first; k <= last; k++) {
        const float v = get(x, i + k * n.inner);
        sum += v * v;
    }
    return n.bias + n.alpha * sum;
}

static __global__ void lrn_kernel(struct zt_launch_lrn n, struct zt_launch_tensor x, struct zt_launch_tensor y) {
    EACH(i, n.outer * n.channels * n.inner) {
        put(y, i, get(x, i) * powf(sum_at(n, x, i), -n.beta));
    }
}

/* slope[j] = dy[j] x[j] s[j]^(-beta - 1) */
static __global__ void lrn_slope_kernel(struct zt_launch_lrn n, struct zt_launch_tensor dy, struct zt_launch_tensor x,
                                        float *slope) {
    EACH(i, n.outer * n.channels * n.inner) {
        slope[i] = get(dy, i) * get(x, i) * powf(sum_at(n, x, i), -n.beta - 1);
    }
}

static __global__ void lrn_grad_kernel(struct zt_launch_lrn n, struct zt_launch_tensor dy, struct zt_launch_tensor x,
                                       const float *slope, struct zt_launch_tensor dx) {
    EACH(i, n.outer * n.channels * n.inner) {
        const int64_t c = i / n.inner % n.channels;
        const int64_t first = c > n.after ? -n.after : -c;
        const int64_t last = c + n.before < n.channels ? n.before : n.channels - 1 - c;
        float sum = 0;
        for (int64_t k = first; k <= last; k++)
            sum += slope[i + k * n.inner];
        put(dx, i, get(dy, i) * powf(sum_at(n, x, i), -n.beta) - 2 * n.alpha * n.beta * get(x, i) * sum);
    }
}

int zt_launch_lrn(cudaStream_t stream, const struct zt_launch_lrn *n, struct zt_launch_tensor x,
                  struct zt_launch_tensor y) {
    const int64_t count = n->outer * n->channels * n->inner;
    if (count > 0)
        lrn_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*n, x, y);
    return cudaGetLastError();
}

int zt_launch_lrn_grad(cudaStream_t stream, const struct zt_launch_lrn *n, struct zt_launch_tensor dy,
                       struct zt_launch_tensor x, struct zt_launch_tensor dx, float *slope) {
    const int64_t count = n->outer * n->channels * n->inner;
    if (count <= 0)
        return cudaSuccess;
    lrn_slope_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*n, dy, x, slope);
    lrn_grad_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*n, dy, x, slope, dx);
    return cudaGetLastError();
}

/* ---- MeanVarianceNormalization: a block a group ---- */

enum { GROUP = 256 };

/* Element i of the group that starts at `start`. */
static __device__ int64_t member(const struct zt_launch_mvn &n, int64_t start, int64_t i) {
    return start + walked(n.reduced_axes, n.reduced_dim, n.reduced_step, i);
}

/* The mean of the differences from the first element, and the variance around it. */
static __device__ float variance_of(const struct zt_launch_mvn &n, const struct zt_launch_tensor &x, int64_t start,
                                    float shift, float *over, float *part) {
    float sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < n.reduced; i += GROUP)
        sum += get(x, member(n, start, i)) - shift;
    *over = add_block<GROUP>(sum, part) / (float)n.reduced;
    for (int64_t i = threadIdx.x; i < n.reduced; i += GROUP) {
        const float d = get(x, member(n, start, i)) - shift - *over;
        squares += d * d;
    }
    return add_block<GROUP>(squares, part) / (float)n.reduced;
}

static __global__ void mvn_kernel(struct zt_launch_mvn n, struct zt_launch_tensor dy, struct zt_launch_tensor x,
                                  struct zt_launch_tensor y) {
    __shared__ float part[GROUP];
    for (int64_t group = blockIdx.x; group < n.groups; group += gridDim.x) {
        const int64_t start = walked(n.group_axes, n.group_dim, n.group_step, group);
        const float shift = get(x, start), m = (float)n.reduced;
        float over, mean_dy = 0, product = 0;
        const float std = sqrtf(variance_of(n, x, start, shift, &over, part)), d = std + 1e-9f;
        for (int64_t i = threadIdx.x; dy.data && i < n.reduced; i += GROUP) {
            const int64_t at = member(n, start, i);
            const float slope_y = get(dy, at);
            mean_dy += slope_y;
            product += slope_y * (get(x, at) - shift - over);
        }
        mean_dy = dy.data ? add_block<GROUP>(mean_dy, part) / m : 0;
        const float slope = dy.data ? add_block<GROUP>(product, part) / m / (std * d * d) : 0;
        for (int64_t i = threadIdx.x; i < n.reduced; i += GROUP) {
            const int64_t at = member(n, start, i);
            const float centred = get(x, at) - shift - over;
            put(y, at, dy.data ? (get(dy, at) - mean_dy) / d - centred * slope : centred / d);
        }
    }
}

int zt_launch_mvn(cudaStream_t stream, const struct zt_launch_mvn *n, struct zt_launch_tensor dy,
                  struct zt_launch_tensor x, struct zt_launch_tensor y) {
    if (n->groups > 0 && n->reduced > 0)
        mvn_kernel<<<job_blocks(n->groups), GROUP, 0, stream>>>(*n, dy, x, y);
    return cudaGetLastError();
}

/* ---- LpNormalization: a block a slice ---- */

static __device__ float norm_of(const struct zt_launch_lp &n, const struct zt_launch_tensor &x,
                                const struct slice &slice, float *part) {
    float sum = 0;
    for (int64_t i = threadIdx.x; i < n.length; i += SLICE_THREADS) {
        const float v = get(x, slice.at(i));
        sum += n.power == 1 ? fabsf(v) : v * v;
    }
    sum = add_block<SLICE_THREADS>(sum, part);
    return n.power == 1 ? sum : sqrtf(sum);
}

static __global__ void lp_kernel(struct zt_launch_lp n, struct zt_launch_tensor x, struct zt_launch_tensor y) {
    __shared__ float part[SLICE_THREADS];
    for (int64_t row = blockIdx.x; row < n.outer * n.inner; row += gridDim.x) {
        const struct slice slice = slice_of(n, row);
        const float norm = norm_of(n, x, slice, part);
        for (int64_t i = threadIdx.x; i < n.length; i += SLICE_THREADS)
            put(y, slice.at(i), norm == 0 ? 0 : get(x, slice.at(i)) / norm);
    }
}

static __global__ void lp_grad_kernel(struct zt_launch_lp n, struct zt_launch_tensor dy, struct zt_launch_tensor x,
                                      struct zt_launch_tensor dx) {
    __shared__ float part[SLICE_THREADS];
    for (int64_t row = blockIdx.x; row < n.outer * n.inner; row += gridDim.x) {
        const struct slice slice = slice_of(n, row);
        const float norm = norm_of(n, x, slice, part);
        float sum = 0;
        for (int64_t i = threadIdx.x; i < n.length; i += SLICE_THREADS)
            sum += norm == 0 ? 0 : get(dy, slice.at(i)) * get(x, slice.at(i)) / norm;
        sum = add_block<SLICE_THREADS>(sum, part);
        for (int64_t i = threadIdx.x; i < n.length; i += SLICE_THREADS) {
            const int64_t at = slice.at(i);
            const float v = get(x, at), slope = n.power == 1 ? (float)((v > 0) - (v < 0)) : v / norm;
            put(dx, at, norm == 0 ? 0 : (get(dy, at) - slope * sum) / norm);
        }
    }
}

int zt_launch_lp(cudaStream_t stream, const struct zt_launch_lp *n, struct zt_launch_tensor a,
                 struct zt_launch_tensor b, struct zt_launch_tensor y) {
    const int64_t rows = n->length > 0 ? n->outer * n->inner : 0;
    if (rows > 0 && n->grad)
        lp_grad_kernel<<<job_blocks(rows), SLICE_THREADS, 0, stream>>>(*n, a, b, y);
    else if (rows > 0)
        lp_kernel<<<job_blocks(rows), SLICE_THREADS, 0, stream>>>(*n, a, y);
    return cudaGetLastError();
}
