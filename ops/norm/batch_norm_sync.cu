/* Batch normalisation over the batch of all ranks (ops/norm/batch_norm_sync.c): the sums of a rank's own elements,
 * and the results from the sums over all ranks. A block takes a channel. Sums are in fp64, because their squares are
 * subtracted from each other. */
#include "ops/cuda/tensor.cuh"
#include "ops/norm/launch_batch_norm.h"

enum { CHANNEL = 512 };

static __device__ bool row_counts(const struct zt_launch_norm_sync &n, const struct zt_launch_tensor &weights,
                                  int64_t row) {
    return !weights.data || get(weights, row / n.per_weight) != 0;
}

/* Element i of a channel's n * spatial; its row is i / spatial. */
static __device__ int64_t element_of(const struct zt_launch_norm_sync &n, int64_t channel, int64_t i) {
    return (i / n.spatial * n.channels + channel) * n.spatial + i % n.spatial;
}

/* ---- sums ---- */

/* Counts the elements of a channel that count, by a block. */
static __device__ void count_elements(const struct zt_launch_norm_sync &n, const struct zt_launch_tensor &weights,
                                      double *part, double *elements) {
    double rows = 0;
    for (int64_t row = threadIdx.x; row < n.n; row += CHANNEL)
        rows += row_counts(n, weights, row);
    rows = add_block<CHANNEL>(rows, part);
    if (threadIdx.x == 0)
        *elements = rows * (double)n.spatial;
}

/* sum (x - s) and sum (x - s)^2 with s the running mean */
static __global__ void sums_kernel(struct zt_launch_norm_sync n, struct zt_launch_norm_sync_tensors t, int64_t first,
                                   int64_t count, double *sums) {
    __shared__ double part[CHANNEL];
    for (int64_t c = blockIdx.x; c < count; c += gridDim.x) {
        const double shift = get(t.forward.mean, first + c);
        double sum = 0, squares = 0;
        for (int64_t i = threadIdx.x; i < n.n * n.spatial; i += CHANNEL) {
            const double d =
                row_counts(n, t.weights, i / n.spatial) ? get(t.forward.x, element_of(n, first + c, i)) - shift : 0;
            sum += d;
            squares += d * d;
        }
        sum = add_block<CHANNEL>(sum, part);
        squares = add_block<CHANNEL>(squares, part);
        if (threadIdx.x == 0) {
            sums[2 * c] = sum;
            sums[2 * c + 1] = squares;
        }
    }
    if (blockIdx.x == 0)
        count_elements(n, t.weights, part, sums + 2 * count);
}

/* sum dy and sum dy xh, which are the rank's own db and dscale too */
static __global__ void grad_sums_kernel(struct zt_launch_norm_sync n, struct zt_launch_norm_sync_tensors t,
                                        int64_t first, int64_t count, double *sums) {
    __shared__ double part[CHANNEL];
    for (int64_t c = blockIdx.x; c < count; c += gridDim.x) {
        const double mean = get(t.grad.mean, first + c), inv_std = get(t.grad.inv_std, first + c);
        double sum = 0, product = 0;
        for (int64_t i = threadIdx.x; i < n.n * n.spatial; i += CHANNEL) {
            if (!row_counts(n, t.weights, i / n.spatial))
                continue;
            const int64_t at = element_of(n, first + c, i);
            const double d = get(t.grad.dy, at);
            sum += d;
            product += d * (get(t.grad.x, at) - mean) * inv_std;
        }
        sum = add_block<CHANNEL>(sum, part);
        product = add_block<CHANNEL>(product, part);
        if (threadIdx.x == 0) {
            sums[2 * c] = sum;
            sums[2 * c + 1] = product;
            put(t.grad.db, first + c, (float)sum);
            put(t.grad.dscale, first + c, (float)product);
        }
    }
    if (blockIdx.x == 0)
        count_elements(n, t.weights, part, sums + 2 * count);
}

int zt_launch_norm_sync_sums(cudaStream_t stream, const struct zt_launch_norm_sync *n,
                             const struct zt_launch_norm_sync_tensors *t, int64_t first, int64_t count, double *sums) {
    if (count <= 0)
        return cudaSuccess;
    if (t->grad.dy.data)
        grad_sums_kernel<<<job_blocks(count), CHANNEL, 0, stream>>>(*n, *t, first, count, sums);
    else
        sums_kernel<<<job_blocks(count), CHANNEL, 0, stream>>>(*n, *t, first, count, sums);
    return cudaGetLastError();
}

/* ---- results of the sums ---- */

static __global__ void apply_kernel(struct zt_launch_norm_sync n, struct zt_launch_norm_sync_tensors t, int64_t first,
                                    int64_t count, const double *sums) {
    const double elements = sums[2 * count];
    for (int64_t k = blockIdx.x; k < count; k += gridDim.x) {
        const int64_t c = first + k;
        const double moved = elements > 0 ? sums[2 * k] / elements : 0, mean = get(t.forward.mean, c) + moved;
        const double all = elements > 0 ? sums[2 * k + 1] / elements - moved * moved : get(t.forward.var, c);
        const double var = all < 0 ? 0 : all; /* NaN stays */
        const double inv_std = 1 / sqrt(var + n.epsilon);
        const float scale = (float)(get(t.forward.scale, c) * inv_std), b = get(t.forward.b, c);
        const float old_mean = get(t.forward.mean, c), old_var = get(t.forward.var, c);
        for (int64_t i = threadIdx.x; i < n.n * n.spatial; i += CHANNEL) {
            const int64_t at = element_of(n, c, i);
            put(t.forward.y, at, (float)(get(t.forward.x, at) - mean) * scale + b);
        }
        __syncthreads(); /* the new running statistics may overwrite the old ones */
        if (threadIdx.x == 0) {
            put(t.forward.new_mean, c, (float)(old_mean * n.momentum + mean * (1 - n.momentum)));
            put(t.forward.new_var, c, (float)(old_var * n.momentum + var * (1 - n.momentum)));
            put(t.forward.batch_mean, c, (float)mean);
            put(t.forward.inv_std, c, (float)inv_std);
        }
    }
}

static __global__ void grad_apply_kernel(struct zt_launch_norm_sync n, struct zt_launch_norm_sync_tensors t,
                                         int64_t first, int64_t count, const double *sums) {
    const double elements = sums[2 * count], m = elements > 0 ? elements : 1;
    for (int64_t k = blockIdx.x; k < count; k += gridDim.x) {
        const int64_t c = first + k;
        const float mean = get(t.grad.mean, c), inv_std = get(t.grad.inv_std, c), a = get(t.grad.scale, c) * inv_std;
        const float b = (float)(sums[2 * k] / m), d = (float)(sums[2 * k + 1] / m);
        for (int64_t i = threadIdx.x; i < n.n * n.spatial; i += CHANNEL) {
            const int64_t at = element_of(n, c, i);
            const float xh = (get(t.grad.x, at) - mean) * inv_std;
            put(t.grad.dx, at, row_counts(n, t.weights, i / n.spatial) ? a * (get(t.grad.dy, at) - b - d * xh) : 0);
        }
    }
}

int zt_launch_norm_sync_apply(cudaStream_t stream, const struct zt_launch_norm_sync *n,
                              const struct zt_launch_norm_sync_tensors *t, int64_t first, int64_t count,
                              const double *sums) {
    if (count <= 0)
        return cudaSuccess;
    if (!t->grad.dy.data)
        apply_kernel<<<job_blocks(count), CHANNEL, 0, stream>>>(*n, *t, first, count, sums);
    else if (t->grad.dx.data)
        grad_apply_kernel<<<job_blocks(count), CHANNEL, 0, stream>>>(*n, *t, first, count, sums);
    return cudaGetLastError();
}
