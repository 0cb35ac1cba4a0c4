/* Copies of broadcast tensors, and bias and ReLU in place: what products and convolutions need beside a library. */
#include "ops/cuda/launch_broadcast.h"
#include "ops/cuda/types.cuh"

template <class T>
static __global__ void broadcast_kernel(struct zt_launch_walk walk, int64_t count, float factor, const T *b, T *y) {
    EACH(i, count) {
        y[i] = from_float<T>(factor * to_float(b[walked(walk.rank, walk.dim, walk.b, i)]));
    }
}

int zt_launch_broadcast(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, float factor,
                        const void *b, void *y) {
    int64_t count = elems_in(walk->dim, walk->rank);
    WITH_TYPE(
        dtype, count,
        (broadcast_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*walk, count, factor, (const T *)b, (T *)y)));
}

/* ---- bias and ReLU ---- */

/* W elements at a time: of one channel, `along` times, or of as many channels that lie beside each other (last). */
template <class I> struct bias_job {
    I packs, along, channels;
    bool last, relu;
};

template <class T, class I, int W> static __global__ void bias_kernel(bias_job<I> j, const T *bias, T *y) {
    for (I i = blockIdx.x * (I)blockDim.x + threadIdx.x; i < j.packs; i += (I)gridDim.x * blockDim.x) {
        pack<T, W> v = ((const pack<T, W> *)y)[i];
        const I channel = !bias ? 0 : j.last ? i % j.along * W : i / j.along % j.channels;
        for (int e = 0; e < W; e++) {
            const T sum =
                bias ? from_float<T>(to_float(v.at[e]) + to_float(bias[j.last ? channel + e : channel])) : v.at[e];
            v.at[e] = j.relu && to_float(sum) <= 0 ? from_float<T>(0) : sum;
        }
        ((pack<T, W> *)y)[i] = v;
    }
}

template <class T, int W>
static void launch_bias(cudaStream_t stream, const struct zt_launch_bias &b, const void *bias, void *y) {
    const bool last = b.plane == 1;
    const int64_t packs = b.samples * b.channels * b.plane / W, along = bias ? (last ? b.channels : b.plane) / W : 1;
    const unsigned blocks = blocks_for(packs);
    const bias_job<int64_t> job = { packs, along, b.channels, last, b.relu };
    const bias_job<int32_t> narrow = { (int32_t)packs, (int32_t)along, (int32_t)b.channels, last, b.relu };
    if (packs <= INT32_MAX / 2)
        bias_kernel<T, int32_t, W><<<blocks, BLOCK, 0, stream>>>(narrow, (const T *)bias, (T *)y);
    else
        bias_kernel<T, int64_t, W><<<blocks, BLOCK, 0, stream>>>(job, (const T *)bias, (T *)y);
}

int zt_launch_bias(cudaStream_t stream, const struct zt_launch_bias *b, const void *bias, void *y) {
    const int64_t wide = 16 / (int64_t)bytes_of(b->dtype), count = b->samples * b->channels * b->plane;
    const bool even = (bias ? (b->plane == 1 ? b->channels : b->plane) : count) % wide == 0;
    if ((uintptr_t)y % 16 == 0 && even)
        WITH_TYPE(b->dtype, count, (launch_bias<T, 16 / sizeof(T)>(stream, *b, bias, y)));
    WITH_TYPE(b->dtype, count, (launch_bias<T, 1>(stream, *b, bias, y)));
}
