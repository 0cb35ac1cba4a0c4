/* Softmax, LogSoftmax, Hardmax and their gradients (formulas: ops/softmax/softmax.c). A block takes a row: one slice
 * along the axis. */
#include "ops/softmax/launch_softmax.h"
#include "ops/reduce/extreme.cuh"

static __global__ void softmax_kernel(struct zt_launch_softmax s, struct zt_launch_tensor x,
                                      struct zt_launch_tensor y) {
    __shared__ float part[SLICE_THREADS];
    __shared__ struct found places[SLICE_THREADS];
    for (int64_t row = blockIdx.x; row < s.outer * s.inner; row += gridDim.x) {
        const struct slice slice = slice_of(s, row);
        const struct found most = extreme_of(x, slice, { false, false }, places);
        float sum = 0;
        for (int64_t i = threadIdx.x; s.rule != ZT_LAUNCH_HARDMAX && i < s.length; i += SLICE_THREADS)
            sum += expf(get(x, slice.at(i)) - most.value);
        sum = add_block<SLICE_THREADS>(sum, part);
        const float shift = s.rule == ZT_LAUNCH_LOG_SOFTMAX ? logf(sum) : 0;
        for (int64_t i = threadIdx.x; i < s.length; i += SLICE_THREADS) {
            const int64_t at = slice.at(i);
            const float v = get(x, at);
            put(y, at,
                s.rule == ZT_LAUNCH_SOFTMAX       ? expf(v - most.value) / sum
                : s.rule == ZT_LAUNCH_LOG_SOFTMAX ? v - most.value - shift
                                                  : (i == most.at ? 1 : 0));
        }
    }
}

static __global__ void softmax_grad_kernel(struct zt_launch_softmax s, struct zt_launch_tensor dy,
                                           struct zt_launch_tensor y, struct zt_launch_tensor dx) {
    __shared__ float part[SLICE_THREADS];
    const bool logs = s.rule == ZT_LAUNCH_LOG_SOFTMAX_GRAD;
    for (int64_t row = blockIdx.x; row < s.outer * s.inner; row += gridDim.x) {
        const struct slice slice = slice_of(s, row);
        float sum = 0;
        for (int64_t i = threadIdx.x; i < s.length; i += SLICE_THREADS) {
            const int64_t at = slice.at(i);
            sum += logs ? get(dy, at) : get(dy, at) * get(y, at);
        }
        sum = add_block<SLICE_THREADS>(sum, part);
        for (int64_t i = threadIdx.x; i < s.length; i += SLICE_THREADS) {
            const int64_t at = slice.at(i);
            const float g = get(dy, at), v = get(y, at);
            put(dx, at, logs ? g - expf(v) * sum : v * (g - sum));
        }
    }
}

int zt_launch_softmax(cudaStream_t stream, const struct zt_launch_softmax *s, struct zt_launch_tensor a,
                      struct zt_launch_tensor b, struct zt_launch_tensor y) {
    const int64_t rows = s->length > 0 ? s->outer * s->inner : 0;
    if (rows == 0)
        return cudaSuccess;
    if (s->rule == ZT_LAUNCH_SOFTMAX_GRAD || s->rule == ZT_LAUNCH_LOG_SOFTMAX_GRAD)
        softmax_grad_kernel<<<job_blocks(rows), SLICE_THREADS, 0, stream>>>(*s, a, b, y);
    else
        softmax_kernel<<<job_blocks(rows), SLICE_THREADS, 0, stream>>>(*s, a, y);
    return cudaGetLastError();
}
