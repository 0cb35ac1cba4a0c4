/* Elements of a struct zt_launch_tensor, and slices of a tensor [outer, length, inner] along its middle axis. */
#ifndef ZT_OPS_CUDA_TENSOR_CUH
#define ZT_OPS_CUDA_TENSOR_CUH

#include "base/block.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

static __device__ inline float get(const struct zt_launch_tensor &t, int64_t i) {
    return float_at(t.dtype, t.data, i);
}
/* Does nothing where the tensor is absent. */
static __device__ inline void put(const struct zt_launch_tensor &t, int64_t i, float value) {
    if (t.data)
        set_float(t.dtype, t.data, i, value);
}

/* Threads of a block that takes a slice. */
enum { SLICE_THREADS = 128 };

/* A slice: `length` elements, `step` apart, from element `start` on. */
struct slice {
    int64_t start, length, step;
    __device__ int64_t at(int64_t k) const {
        return start + k * step;
    }
};
/* Slice `index` of outer * inner slices. Shape: a struct with members length and inner. */
template <class Shape> static __device__ inline struct slice slice_of(const Shape &s, int64_t index) {
    return { index / s.inner * s.length * s.inner + index % s.inner, s.length, s.inner };
}

#endif
