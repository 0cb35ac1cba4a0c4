/* Elementwise kernels: one thread an element, grid-stride. */
#include "ops/launch_cuda.h"
#include "ops/types.cuh"

/* ---- one input, or one and what forward kept ---- */

struct relu {
    static __device__ float f(float x) {
        return x <= 0 ? 0 : x;
    }
    static __device__ float df(float kept, float dy) {
        return kept <= 0 ? 0 : dy;
    }
};

template <class Rule, class T> static __global__ void unary_kernel(const T *x, T *y, int64_t count) {
    EACH(i, count)
    y[i] = from_float<T>(Rule::f(to_float(x[i])));
}

template <class Rule, class T>
static __global__ void unary_grad_kernel(const T *dy, const T *kept, T *dx, int64_t count) {
    EACH(i, count)
    dx[i] = from_float<T>(Rule::df(to_float(kept[i]), to_float(dy[i])));
}

int zt_launch_relu(cudaStream_t stream, enum zt_dtype dtype, const void *x, void *y, int64_t count) {
    WITH_TYPE(dtype, count,
              (unary_kernel<relu, T><<<blocks_for(count), BLOCK, 0, stream>>>((const T *)x, (T *)y, count)));
}

int zt_launch_relu_grad(cudaStream_t stream, enum zt_dtype dtype, const void *dy, const void *y, void *dx,
                        int64_t count) {
    WITH_TYPE(dtype, count,
              (unary_grad_kernel<relu, T>
               <<<blocks_for(count), BLOCK, 0, stream>>>((const T *)dy, (const T *)y, (T *)dx, count)));
}

/* ---- two inputs, broadcast ---- */

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
static __global__ void spread_kernel(struct zt_launch_walk walk, int64_t count, float factor, const T *b, T *y) {
    EACH(i, count) {
        int64_t left, right;
        place(&walk, i, &left, &right);
        y[i] = from_float<T>(factor * to_float(b[right]));
    }
}

static int64_t count_of(const struct zt_launch_walk *walk) {
    int64_t count = 1;
    for (int k = 0; k < walk->rank; k++)
        count *= walk->dim[k];
    return count;
}

int zt_launch_add(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, const void *a,
                  const void *b, void *y) {
    int64_t count = count_of(walk);
    WITH_TYPE(
        dtype, count,
        (add_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*walk, count, (const T *)a, (const T *)b, (T *)y)));
}

int zt_launch_spread(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, float factor,
                     const void *b, void *y) {
    int64_t count = count_of(walk);
    WITH_TYPE(dtype, count,
              (spread_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*walk, count, factor, (const T *)b, (T *)y)));
}

/* ---- cast ---- */

/* An integer input is taken as such, so that all 64 bits survive. */
struct number {
    bool whole, is_unsigned;
    int64_t i;
    double d;
};

static __device__ struct number whole(int64_t i, bool is_unsigned) {
    return { true, is_unsigned, i, is_unsigned ? (double)(uint64_t)i : (double)i };
}

static __device__ struct number fraction(double d) {
    return { false, false, 0, d };
}

static __device__ struct number load(enum zt_dtype dtype, const void *x, int64_t i) {
    switch (dtype) {
    case ZT_FLOAT:
        return fraction(((const float *)x)[i]);
    case ZT_DOUBLE:
        return fraction(((const double *)x)[i]);
    case ZT_FLOAT16:
        return fraction(__half2float(((const __half *)x)[i]));
    case ZT_BFLOAT16:
        return fraction(to_float(((const __nv_bfloat16 *)x)[i]));
    case ZT_INT8:
        return whole(((const int8_t *)x)[i], false);
    case ZT_UINT16:
        return whole(((const uint16_t *)x)[i], false);
    case ZT_INT16:
        return whole(((const int16_t *)x)[i], false);
    case ZT_UINT32:
        return whole(((const uint32_t *)x)[i], false);
    case ZT_INT32:
        return whole(((const int32_t *)x)[i], false);
    case ZT_INT64:
        return whole(((const int64_t *)x)[i], false);
    case ZT_UINT64:
        return whole(((const int64_t *)x)[i], true);
    default: /* uint8, bool */
        return whole(((const uint8_t *)x)[i], false);
    }
}

/* Saturates to 64 bits and then wraps to the type; NaN gives the lowest, as on the host. */
static __device__ int64_t as_int(const struct number &v) {
    if (v.whole)
        return v.i;
    if (!(v.d > -0x1p63))
        return INT64_MIN;
    return v.d >= 0x1p63 ? INT64_MAX : (int64_t)v.d;
}

static __device__ uint64_t as_unsigned(const struct number &v) {
    if (v.whole)
        return (uint64_t)v.i;
    return v.d >= 0x1p64 ? UINT64_MAX : v.d > 0 ? (uint64_t)v.d : 0;
}

static __device__ void store(enum zt_dtype dtype, void *y, int64_t i, const struct number &v) {
    switch (dtype) {
    case ZT_FLOAT:
        ((float *)y)[i] = (float)v.d;
        break;
    case ZT_DOUBLE:
        ((double *)y)[i] = v.d;
        break;
    case ZT_FLOAT16:
        ((__half *)y)[i] = __float2half_rn((float)v.d);
        break;
    case ZT_BFLOAT16:
        ((__nv_bfloat16 *)y)[i] = __float2bfloat16_rn((float)v.d);
        break;
    case ZT_BOOL:
        ((uint8_t *)y)[i] = v.whole ? v.i != 0 : v.d != 0;
        break;
    case ZT_UINT8:
    case ZT_INT8:
        ((uint8_t *)y)[i] = (uint8_t)as_int(v);
        break;
    case ZT_UINT16:
    case ZT_INT16:
        ((uint16_t *)y)[i] = (uint16_t)as_int(v);
        break;
    case ZT_UINT32:
    case ZT_INT32:
        ((uint32_t *)y)[i] = (uint32_t)as_int(v);
        break;
    case ZT_UINT64:
        ((uint64_t *)y)[i] = as_unsigned(v);
        break;
    default: /* int64 */
        ((int64_t *)y)[i] = as_int(v);
    }
}

static __global__ void cast_kernel(enum zt_dtype from, const void *x, enum zt_dtype to, void *y, int64_t count) {
    EACH(i, count)
    store(to, y, i, load(from, x, i));
}

int zt_launch_cast(cudaStream_t stream, enum zt_dtype from, const void *x, enum zt_dtype to, void *y, int64_t count) {
    if (count > 0)
        cast_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(from, x, to, y, count);
    return cudaGetLastError();
}
