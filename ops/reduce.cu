/* Sums along one axis of [outer, length, inner], which neighbouring axes fold into. fp32; the order of addition depends
 * on the shape alone. */
#include "ops/launch_cuda.h"
#include "ops/types.cuh"

enum { ACROSS = 32, ALONG = 16 }; /* a block: columns, and rows added at a time */

/* inner > 1: a block sums ACROSS neighbouring columns; thread (c, r) takes rows r, r + ALONG, ... and the ALONG partial
 * sums are added in order. Reads of a warp are neighbours. */
template <class T>
static __global__ void sum_columns_kernel(struct zt_launch_sum s, const T *x, T *y, bool accumulate) {
    __shared__ float part[ALONG][ACROSS];
    int64_t wide = (s.inner + ACROSS - 1) / ACROSS;
    for (int64_t job = blockIdx.x; job < s.outer * wide; job += gridDim.x) {
        int64_t o = job / wide, column = job % wide * ACROSS + threadIdx.x;
        float sum = 0;
        for (int64_t k = threadIdx.y; column < s.inner && k < s.length; k += ALONG)
            sum += to_float(x[(o * s.length + k) * s.inner + column]);
        part[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && column < s.inner) {
            float total = accumulate ? to_float(y[o * s.inner + column]) : 0;
            for (int r = 0; r < ALONG; r++)
                total += part[r][threadIdx.x];
            y[o * s.inner + column] = from_float<T>(total);
        }
        __syncthreads();
    }
}

/* inner = 1: a block sums one row; the partial sums of its threads are added in a fixed tree. */
template <class T> static __global__ void sum_rows_kernel(struct zt_launch_sum s, const T *x, T *y, bool accumulate) {
    __shared__ float part[BLOCK];
    for (int64_t o = blockIdx.x; o < s.outer; o += gridDim.x) {
        float sum = 0;
        for (int64_t k = threadIdx.x; k < s.length; k += BLOCK)
            sum += to_float(x[o * s.length + k]);
        part[threadIdx.x] = sum;
        __syncthreads();
        for (int half = BLOCK / 2; half > 0; half /= 2) {
            if ((int)threadIdx.x < half)
                part[threadIdx.x] += part[threadIdx.x + half];
            __syncthreads();
        }
        if (threadIdx.x == 0)
            y[o] = from_float<T>((accumulate ? to_float(y[o]) : 0) + part[0]);
        __syncthreads();
    }
}

static unsigned at_most(int64_t blocks) {
    return (unsigned)(blocks < 65535 ? blocks : 65535);
}

int zt_launch_sum(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_sum *s, const void *x, void *y,
                  bool accumulate) {
    if (s->inner > 1) {
        int64_t blocks = s->outer * ((s->inner + ACROSS - 1) / ACROSS);
        WITH_TYPE(dtype, blocks,
                  (sum_columns_kernel<T>
                   <<<at_most(blocks), dim3(ACROSS, ALONG), 0, stream>>>(*s, (const T *)x, (T *)y, accumulate)));
    }
    WITH_TYPE(dtype, s->outer * s->inner,
              (sum_rows_kernel<T><<<at_most(s->outer), BLOCK, 0, stream>>>(*s, (const T *)x, (T *)y, accumulate)));
}
