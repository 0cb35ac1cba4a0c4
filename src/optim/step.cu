#include "optim/step_cuda.h"

#include <cuda_runtime.h>

enum { BLOCK = 256 };

static unsigned blocks_for(int64_t count) {
    int64_t blocks = (count + BLOCK - 1) / BLOCK;
    int64_t most = 132 * 16; /* enough to keep a big GPU busy; kernels go on by EACH */
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

#define EACH(i, count)                                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (int64_t)gridDim.x * blockDim.x)

static __global__ void adam_kernel(struct zt_adam c, float *p, const float *g, float *m, float *v, int64_t count) {
    EACH(i, count)
    zt_adam_step(&c, &p[i], g[i], &m[i], &v[i]);
}

static __global__ void sgd_kernel(struct zt_sgd c, float *p, const float *g, int64_t count) {
    EACH(i, count)
    zt_sgd_step(&c, &p[i], g[i]);
}

static __global__ void sgd_momentum_kernel(struct zt_sgd c, float *p, const float *g, float *b, int64_t count) {
    EACH(i, count)
    zt_sgd_momentum_step(&c, &p[i], g[i], &b[i]);
}

static __global__ void accumulate_kernel(float *to, const float *from, int64_t count) {
    EACH(i, count)
    to[i] += from[i];
}

/* A block adds elements i, i + BLOCK, ... of its slice; its threads' sums are added in a fixed tree. With `x` NULL it
 * adds `parts` themselves, `count` of them: the second pass. */
static __global__ void squares_kernel(const float *x, int64_t count, int64_t slice, const double *parts, double *to) {
    __shared__ double part[BLOCK];
    int64_t first = blockIdx.x * slice, last = first + slice < count ? first + slice : count;
    double sum = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += BLOCK)
        sum += x ? (double)x[i] * (double)x[i] : parts[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        to[blockIdx.x] = part[0];
}

int zt_launch_adam(cudaStream_t stream, const struct zt_adam *c, float *p, const float *g, float *m, float *v,
                   int64_t count) {
    adam_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*c, p, g, m, v, count);
    return cudaGetLastError();
}

int zt_launch_sgd(cudaStream_t stream, const struct zt_sgd *c, float *p, const float *g, int64_t count) {
    sgd_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*c, p, g, count);
    return cudaGetLastError();
}

int zt_launch_sgd_momentum(cudaStream_t stream, const struct zt_sgd *c, float *p, const float *g, float *b,
                           int64_t count) {
    sgd_momentum_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*c, p, g, b, count);
    return cudaGetLastError();
}

int zt_launch_accumulate(cudaStream_t stream, float *to, const float *from, int64_t count) {
    accumulate_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(to, from, count);
    return cudaGetLastError();
}

int zt_launch_squares(cudaStream_t stream, const float *x, int64_t count, double *parts, double *sum) {
    int64_t slice = (count + ZT_SQUARE_PARTS - 1) / ZT_SQUARE_PARTS;
    slice = slice < 4096 ? 4096 : slice;
    int64_t blocks = count > 0 ? (count + slice - 1) / slice : 1;
    squares_kernel<<<(unsigned)blocks, BLOCK, 0, stream>>>(x, count, slice, NULL, parts);
    squares_kernel<<<1, BLOCK, 0, stream>>>(NULL, blocks, blocks, parts, sum);
    return cudaGetLastError();
}
