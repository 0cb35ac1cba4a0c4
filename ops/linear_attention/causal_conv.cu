/* CausalConvWithState and its gradient (formulas: ops/linear_attention/causal_conv.c). */
#include "ops/linear_attention/launch_causal_conv.h"
#include "ops/cuda/tensor.cuh"

/* Number i of the padded input of row (sample, channel). */
template <class Tensors>
static __device__ float padded(const struct zt_launch_causal_conv &c, const Tensors &t, int64_t row, int64_t i) {
    const int64_t past = c.kernel - 1;
    if (i >= past)
        return get(t.x, row * c.length + i - past);
    return t.past.data ? get(t.past, row * past + i) : 0;
}

/* a[t] of a row. */
template <class Tensors>
static __device__ float convolved(const struct zt_launch_causal_conv &c, const Tensors &t, int64_t row, int64_t at) {
    const int64_t channel = row % c.channels;
    float a = t.bias.data ? get(t.bias, channel) : 0;
    for (int64_t j = 0; j < c.kernel; j++)
        a += get(t.weight, channel * c.kernel + j) * padded(c, t, row, at + j);
    return a;
}

/* A thread takes a number of y, or one of the present state, which lie behind y's of their row. */
static __global__ void causal_conv_kernel(struct zt_launch_causal_conv c, struct zt_launch_causal_conv_tensors t) {
    const int64_t past = c.kernel - 1, wide = c.length + past;
    EACH(i, c.batch * c.channels * wide) {
        const int64_t row = i / wide, at = i % wide;
        if (at >= c.length) {
            put(t.present, row * past + at - c.length, padded(c, t, row, at));
            continue;
        }
        const float a = convolved(c, t, row, at);
        put(t.y, row * c.length + at, c.silu ? a / (1 + expf(-a)) : a);
    }
}

int zt_launch_causal_conv(cudaStream_t stream, const struct zt_launch_causal_conv *c,
                          const struct zt_launch_causal_conv_tensors *t) {
    const int64_t count = c->batch * c->channels * (c->length + c->kernel - 1);
    if (count > 0)
        causal_conv_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*c, *t);
    return cudaGetLastError();
}

/* ---- backward: da, then dz, then dw and dbias ---- */

static __global__ void da_kernel(struct zt_launch_causal_conv c, struct zt_launch_causal_conv_grad g) {
    EACH(i, c.batch * c.channels * c.length) {
        float da = g.dy.data ? get(g.dy, i) : 0;
        if (c.silu) {
            const float a = convolved(c, g, i / c.length, i % c.length), s = 1 / (1 + expf(-a));
            da *= s * (1 + a * (1 - s));
        }
        g.da[i] = da;
    }
}

/* A thread takes a number of dz. */
static __global__ void dz_kernel(struct zt_launch_causal_conv c, struct zt_launch_causal_conv_grad g) {
    const int64_t past = c.kernel - 1, wide = c.length + past;
    EACH(i, c.batch * c.channels * wide) {
        const int64_t row = i / wide, at = i % wide, channel = row % c.channels;
        float dz = at >= c.length && g.dpresent.data ? get(g.dpresent, row * past + at - c.length) : 0;
        for (int64_t j = most(0, at - c.length + 1); j < c.kernel && j <= at; j++)
            dz += get(g.weight, channel * c.kernel + j) * g.da[row * c.length + at - j];
        if (at < past)
            put(g.dpast, row * past + at, dz);
        else
            put(g.dx, row * c.length + at - past, dz);
    }
}

/* A block takes a number of dw, or dbias behind the numbers of its channel, and adds up samples and positions. */
static __global__ void dw_kernel(struct zt_launch_causal_conv c, struct zt_launch_causal_conv_grad g) {
    __shared__ float part[SLICE_THREADS];
    const int64_t wide = c.kernel + 1;
    for (int64_t job = blockIdx.x; job < c.channels * wide; job += gridDim.x) {
        const int64_t channel = job / wide, j = job % wide;
        float sum = 0;
        for (int64_t i = threadIdx.x; i < c.batch * c.length; i += SLICE_THREADS) {
            const int64_t row = i / c.length * c.channels + channel, at = i % c.length;
            const float da = g.da[row * c.length + at];
            sum += j < c.kernel ? da * padded(c, g, row, at + j) : da;
        }
        sum = add_block<SLICE_THREADS>(sum, part);
        if (threadIdx.x != 0)
            continue;
        if (j < c.kernel)
            put(g.dweight, channel * c.kernel + j, sum);
        else
            put(g.dbias, channel, sum);
    }
}

int zt_launch_causal_conv_grad(cudaStream_t stream, const struct zt_launch_causal_conv *c,
                               const struct zt_launch_causal_conv_grad *g) {
    const int64_t rows = c->batch * c->channels, count = rows * c->length, jobs = c->channels * (c->kernel + 1);
    const int64_t padded_count = rows * (c->length + c->kernel - 1);
    if (count > 0)
        da_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*c, *g);
    if (padded_count > 0)
        dz_kernel<<<blocks_for(padded_count), BLOCK, 0, stream>>>(*c, *g);
    if (jobs > 0)
        dw_kernel<<<job_blocks(jobs), SLICE_THREADS, 0, stream>>>(*c, *g);
    return cudaGetLastError();
}
