/* Dtypes of CUDA kernels: conversions between storage types and fp32, and the choice of a kernel template by dtype. */
#ifndef ZT_OPS_CUDA_TYPES_CUH
#define ZT_OPS_CUDA_TYPES_CUH

#include "base/block.cuh"
#include "graph/ir/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

static __device__ inline float to_float(float x) {
    return x;
}
static __device__ inline float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
static __device__ inline float to_float(__half x) {
    return __half2float(x);
}

template <class T> static __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x) {
    return x;
}
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}
template <> __device__ inline __half from_float<__half>(float x) {
    return __float2half_rn(x);
}

/* W neighbouring elements from or to an address that is a multiple of 16, or of their size where that is less. */
template <int W, class T> static __device__ inline void load_floats(const T *from, float (&to)[W]) {
    constexpr int each = (int)(16 / sizeof(T)) < W ? (int)(16 / sizeof(T)) : W;
    for (int first = 0; first < W; first += each) {
        const pack<T, each> here = *(const pack<T, each> *)(from + first);
        for (int e = 0; e < each; e++)
            to[first + e] = to_float(here.at[e]);
    }
}
template <int W, class T> static __device__ inline void store_floats(const float (&from)[W], T *to) {
    constexpr int each = (int)(16 / sizeof(T)) < W ? (int)(16 / sizeof(T)) : W;
    for (int first = 0; first < W; first += each) {
        pack<T, each> here;
        for (int e = 0; e < each; e++)
            here.at[e] = from_float<T>(from[first + e]);
        *(pack<T, each> *)(to + first) = here;
    }
}

/* The type of arithmetic: integers keep theirs, float types use fp32. */
static __device__ inline float to_number(float x) {
    return x;
}
static __device__ inline float to_number(__nv_bfloat16 x) {
    return to_float(x);
}
static __device__ inline float to_number(__half x) {
    return to_float(x);
}
static __device__ inline int32_t to_number(int32_t x) {
    return x;
}
static __device__ inline int64_t to_number(int64_t x) {
    return x;
}
template <class T, class V> static __device__ inline T of_number(V x) {
    return (T)x;
}
template <> __device__ inline __nv_bfloat16 of_number<__nv_bfloat16, float>(float x) {
    return from_float<__nv_bfloat16>(x);
}
template <> __device__ inline __half of_number<__half, float>(float x) {
    return from_float<__half>(x);
}

/* An element of a tensor whose type is known at run time only: float, bfloat16, float16, int32 or int64. */
static __device__ inline float float_at(enum zt_dtype dtype, const void *data, int64_t i) {
    return dtype == ZT_BFLOAT16  ? to_float(((const __nv_bfloat16 *)data)[i])
           : dtype == ZT_FLOAT16 ? to_float(((const __half *)data)[i])
                                 : ((const float *)data)[i];
}
static __device__ inline int64_t int_at(enum zt_dtype dtype, const void *data, int64_t i) {
    return dtype == ZT_INT32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}
static __device__ inline void set_float(enum zt_dtype dtype, void *data, int64_t i, float value) {
    if (dtype == ZT_BFLOAT16)
        ((__nv_bfloat16 *)data)[i] = from_float<__nv_bfloat16>(value);
    else if (dtype == ZT_FLOAT16)
        ((__half *)data)[i] = from_float<__half>(value);
    else
        ((float *)data)[i] = value;
}

static __device__ inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static __device__ inline int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Bytes of an element. */
static inline size_t bytes_of(enum zt_dtype dtype) {
    switch (dtype) {
    case ZT_DOUBLE:
    case ZT_INT64:
    case ZT_UINT64:
        return 8;
    case ZT_FLOAT:
    case ZT_INT32:
    case ZT_UINT32:
        return 4;
    case ZT_FLOAT16:
    case ZT_BFLOAT16:
    case ZT_INT16:
    case ZT_UINT16:
        return 2;
    default:
        return 1;
    }
}

/* Elements of a tensor of shape `dim`. */
static inline int64_t elems_in(const int64_t *dim, int axes) {
    int64_t count = 1;
    for (int k = 0; k < axes; k++)
        count *= dim[k];
    return count;
}

/* Offset of element `i` of a tensor of shape `dim`, counted row-major, with strides `step`. */
static __device__ inline int64_t walked(int axes, const int64_t *dim, const int64_t *step, int64_t i) {
    int64_t at = 0;
    for (int k = axes - 1; k > 0; k--) {
        at += i % dim[k] * step[k];
        i /= dim[k];
    }
    return axes > 0 ? at + i * step[0] : 0;
}

/* These are macros because `call` is a launch that names the type T, and a launch is no argument of a function. Each
 * returns from the launcher: the error of the launch, or cudaSuccess for count 0, which a grid cannot have. */
#define AS_TYPE(type, call)                                                                                            \
    {                                                                                                                  \
        using T = type;                                                                                                \
        call;                                                                                                          \
    }

/* T is the storage type of a float or half dtype. */
#define WITH_TYPE(dtype, count, call)                                                                                  \
    do {                                                                                                               \
        if ((count) <= 0)                                                                                              \
            return cudaSuccess;                                                                                        \
        if ((dtype) == ZT_BFLOAT16)                                                                                    \
            AS_TYPE(__nv_bfloat16, call)                                                                               \
        else if ((dtype) == ZT_FLOAT16)                                                                                \
            AS_TYPE(__half, call)                                                                                      \
        else                                                                                                           \
            AS_TYPE(float, call)                                                                                       \
        return cudaGetLastError();                                                                                     \
    } while (0)

/* T is the storage type of a float, half, int32 or int64 dtype. */
#define WITH_NUMBER(dtype, count, call)                                                                                \
    do {                                                                                                               \
        if ((count) <= 0)                                                                                              \
            return cudaSuccess;                                                                                        \
        if ((dtype) == ZT_INT32)                                                                                       \
            AS_TYPE(int32_t, call)                                                                                     \
        else if ((dtype) == ZT_INT64)                                                                                  \
            AS_TYPE(int64_t, call)                                                                                     \
        else                                                                                                           \
            WITH_TYPE(dtype, count, call);                                                                             \
        return cudaGetLastError();                                                                                     \
    } while (0)

/* T is the unsigned integer of `bytes` bytes, for elements that are only copied. */
#define WITH_BYTES(bytes, count, call)                                                                                 \
    do {                                                                                                               \
        if ((count) <= 0)                                                                                              \
            return cudaSuccess;                                                                                        \
        if ((bytes) == 1)                                                                                              \
            AS_TYPE(uint8_t, call)                                                                                     \
        else if ((bytes) == 2)                                                                                         \
            AS_TYPE(uint16_t, call)                                                                                    \
        else if ((bytes) == 4)                                                                                         \
            AS_TYPE(uint32_t, call)                                                                                    \
        else                                                                                                           \
            AS_TYPE(uint64_t, call)                                                                                    \
        return cudaGetLastError();                                                                                     \
    } while (0)

#endif
