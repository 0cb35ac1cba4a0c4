/* Sums and copies of broadcast tensors, and ReLU in place: what products and convolutions need beside a library. */
#include "ops/cuda/launch_broadcast.h"
#include "ops/cuda/types.cuh"

static __device__ void place(const struct zt_launch_walk *walk, int64_t i, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int k = walk->rank - 1; k > 0; k--) {
        int64_t at = i % walk->dim[k];
        i /= walk->dim[k];
        *a += at * walk->a[k];
        *b += at * walk->b[k];
    }
    *a += i * walk->a[0];
    *b += i * walk->b[0];
}

template <class T>
static __global__ void add_kernel(struct zt_launch_walk walk, int64_t count, const T *a, const T *b, T *y) {
    EACH(i, count) {
        int64_t left, right;
        place(&walk, i, &left, &right);
        y[i] = from_float<T>(to_float(a[left]) + to_float(b[right]));
    }
}

template <class T>
static __global__ void broadcast_kernel(struct zt_launch_walk walk, int64_t count, float factor, const T *b, T *y) {
    EACH(i, count) {
        int64_t left, right;
        place(&walk, i, &left, &right);
        y[i] = from_float<T>(factor * to_float(b[right]));
    }
}

template <class T> static __global__ void relu_kernel(int64_t count, T *y) {
    EACH(i, count) {
        y[i] = to_float(y[i]) <= 0 ? from_float<T>(0) : y[i];
    }
}

int zt_launch_add(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, const void *a,
                  const void *b, void *y) {
    int64_t count = elems_in(walk->dim, walk->rank);
    WITH_TYPE(
        dtype, count,
        (add_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*walk, count, (const T *)a, (const T *)b, (T *)y)));
}

int zt_launch_broadcast(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, float factor,
                        const void *b, void *y) {
    int64_t count = elems_in(walk->dim, walk->rank);
    WITH_TYPE(
        dtype, count,
        (broadcast_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*walk, count, factor, (const T *)b, (T *)y)));
}

int zt_launch_relu(cudaStream_t stream, enum zt_dtype dtype, int64_t count, void *y) {
    WITH_TYPE(dtype, count, (relu_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(count, (T *)y)));
}
