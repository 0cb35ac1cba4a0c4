/* The dtype mechanism of our CUDA kernels: storage types by name, arithmetic in fp32. */
#ifndef ZT_OPS_TYPES_CUH
#define ZT_OPS_TYPES_CUH

#include "graph/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

static __device__ inline float to_float(float x) {
    return x;
}
static __device__ inline float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

template <class T> static __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x) {
    return x;
}
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

/* An element of a tensor whose type is known at run time only: float, bfloat16, int32 or int64. */
static __device__ inline float float_at(enum zt_dtype dtype, const void *data, int64_t i) {
    return dtype == ZT_BFLOAT16 ? to_float(((const __nv_bfloat16 *)data)[i]) : ((const float *)data)[i];
}
static __device__ inline int64_t int_at(enum zt_dtype dtype, const void *data, int64_t i) {
    return dtype == ZT_INT32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}
static __device__ inline void set_float(enum zt_dtype dtype, void *data, int64_t i, float value) {
    if (dtype == ZT_BFLOAT16)
        ((__nv_bfloat16 *)data)[i] = from_float<__nv_bfloat16>(value);
    else
        ((float *)data)[i] = value;
}

enum { BLOCK = 256 };

/* Enough blocks for `count` threads, but no more than keep a big GPU busy: kernels go on by EACH. */
static inline unsigned blocks_for(int64_t count) {
    int64_t blocks = (count + BLOCK - 1) / BLOCK, most = 132 * 16;
    return (unsigned)(blocks < most ? blocks : most);
}

#define EACH(i, count)                                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (int64_t)gridDim.x * blockDim.x)

/* The launch that follows runs `call` with T the storage type of dtype. Nothing is launched for nothing. */
#define WITH_TYPE(dtype, count, call)                                                                                  \
    do {                                                                                                               \
        if ((count) <= 0)                                                                                              \
            return cudaSuccess;                                                                                        \
        if ((dtype) == ZT_BFLOAT16) {                                                                                  \
            using T = __nv_bfloat16;                                                                                   \
            call;                                                                                                      \
        } else {                                                                                                       \
            using T = float;                                                                                           \
            call;                                                                                                      \
        }                                                                                                              \
        return cudaGetLastError();                                                                                     \
    } while (0)

#endif
