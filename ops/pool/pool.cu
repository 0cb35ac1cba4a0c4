/* Pools and their gradients (formulas: ops/pool/pool.c), a thread an element of the result. A gradient gathers from the
 * windows that cover its element, in a fixed order. */
#include "ops/cuda/launch.h"
#include "ops/cuda/types.cuh"
#include "ops/cuda/window.cuh"

#include <math_constants.h>

/* What a kernel reads: I is 32 bits wide where everything fits. */
template <class I> struct pool {
    window<I> w;
    I channels, in, out; /* elements of a plane */
    bool count_include_pad, columns;
    int position_bytes;
    float p;
};
template <class I> static pool<I> pool_of(const struct zt_launch_pool &p) {
    const window<I> w = narrowed<I>(p.window);
    return { w, (I)p.channels, elems_of(w.in), elems_of(w.out), p.count_include_pad, p.columns, p.position_bytes, p.p };
}

/* What a mean divides by at result o. */
template <class I> static __device__ float count_at(const pool<I> &p, const place<I> &o) {
    const window<I> &w = p.w;
    float count = 1;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++) {
        const reach<I> r = reach_of(w, a, o.at[a], p.count_include_pad ? -w.pad[a] : (I)0,
                                    w.in[a] + (p.count_include_pad ? w.pad_end[a] : (I)0));
        count *= (float)(r.end > r.first ? r.end - r.first : 0);
    }
    return count;
}

/* Element i of tensors whose planes have `elems` elements: which plane, which channel beside it, which element. */
template <class I> struct spot { I plane, channel, element; };
template <class I> static __device__ spot<I> spot_of(const pool<I> &p, I i, I elems) {
    const I side = i / p.channels;
    return { side / elems, i % p.channels, side % elems };
}

/* ---- forward ---- */

/* ONNX's Indices: the place of an element in the whole input, its plane counted along rows or along columns. */
template <class I> static __device__ int64_t index_of(const pool<I> &p, I plane, I element) {
    const I *in = p.w.in;
    const place<I> at = split(element, in);
    const I place = p.columns ? at.at[0] + in[0] * (at.at[1] + in[1] * at.at[2]) : element;
    return plane * p.in + place;
}

template <class T, class I>
static __global__ void max_kernel(pool<I> p, int64_t count, const T *x, T *y, void *position, int64_t *indices) {
    EACH(i, count) {
        const spot<I> s = spot_of(p, (I)i, p.out);
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        float best = -CUDART_INF_F;
        I at = -1, element = 0;
        each_covered(p.w, split(s.element, p.w.out), [&](I from, I k) {
            float v = to_float(plane[from * p.channels]);
            if (at >= 0 && !(v > best) && !(isnan(v) && !isnan(best)))
                return;
            best = v;
            at = k;
            element = from;
        });
        y[i] = from_float<T>(best);
        at = at < 0 ? 0 : at;
        if (position && p.position_bytes == 1)
            ((uint8_t *)position)[i] = (uint8_t)at;
        else if (position)
            ((int32_t *)position)[i] = (int32_t)at;
        if (indices)
            indices[i] = index_of(p, s.plane * p.channels + s.channel, element);
    }
}

template <class T, class I> static __global__ void mean_kernel(pool<I> p, int64_t count, const T *x, T *y) {
    EACH(i, count) {
        const spot<I> s = spot_of(p, (I)i, p.out);
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        const place<I> o = split(s.element, p.w.out);
        float sum = 0;
        each_covered(p.w, o, [&](I from, I) { sum += to_float(plane[from * p.channels]); });
        y[i] = from_float<T>(sum / count_at(p, o));
    }
}

template <class T, class I> static __global__ void norm_kernel(pool<I> p, int64_t count, const T *x, T *y) {
    EACH(i, count) {
        const spot<I> s = spot_of(p, (I)i, p.out);
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        float sum = 0;
        each_covered(p.w, split(s.element, p.w.out), [&](I from, I) {
            float v = to_float(plane[from * p.channels]);
            sum += p.p == 2 ? v * v : powf(fabsf(v), p.p);
        });
        y[i] = from_float<T>(powf(sum, 1 / p.p));
    }
}

/* 32 bits hold every element's number and every place along an axis, in the padding too. */
static bool is_narrow(const struct zt_launch_pool &p) {
    const struct zt_launch_window &w = p.window;
    const int64_t most = INT32_MAX / 4, planes = p.planes * p.channels;
    bool narrow = planes * elems_of(w.in) <= INT32_MAX && planes * elems_of(w.out) <= INT32_MAX;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++)
        narrow &= w.in[a] <= most && w.pad[a] <= most && w.pad_end[a] <= most && w.stride[a] <= most / (w.out[a] + 1) &&
                  w.dilation[a] <= most / (w.kernel[a] + 1);
    return narrow;
}

/* Runs `call` with T the storage type and I the integers. */
#define WITH_POOL(p, count, call)                                                                                      \
    do {                                                                                                               \
        if (is_narrow(p)) {                                                                                            \
            using I = int32_t;                                                                                         \
            WITH_TYPE((p).dtype, count, call);                                                                         \
        } else {                                                                                                       \
            using I = int64_t;                                                                                         \
            WITH_TYPE((p).dtype, count, call);                                                                         \
        }                                                                                                              \
    } while (0)

int zt_launch_pool_max(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y, void *position,
                       int64_t *indices) {
    int64_t count = p->planes * p->channels * elems_of(p->window.out);
    WITH_POOL(*p, count,
              (max_kernel<T, I><<<blocks_for(count), BLOCK, 0, stream>>>(pool_of<I>(*p), count, (const T *)x, (T *)y,
                                                                         position, indices)));
}

int zt_launch_pool_mean(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    int64_t count = p->planes * p->channels * elems_of(p->window.out);
    WITH_POOL(
        *p, count,
        (mean_kernel<T, I><<<blocks_for(count), BLOCK, 0, stream>>>(pool_of<I>(*p), count, (const T *)x, (T *)y)));
}

int zt_launch_pool_norm(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    int64_t count = p->planes * p->channels * elems_of(p->window.out);
    WITH_POOL(
        *p, count,
        (norm_kernel<T, I><<<blocks_for(count), BLOCK, 0, stream>>>(pool_of<I>(*p), count, (const T *)x, (T *)y)));
}

/* ---- backward ---- */

template <class T, class I>
static __global__ void max_grad_kernel(pool<I> p, int64_t count, const T *dy, const void *positions, const T *y,
                                       T *dx) {
    EACH(i, count) {
        const spot<I> s = spot_of(p, (I)i, p.in);
        const I first = s.plane * p.out;
        float sum = 0;
        each_covering(p.w, split(s.element, p.w.in), [&](const place<I> &o, I k) {
            const I at = (first + flat(o, p.w.out)) * p.channels + s.channel;
            const I kept = p.position_bytes == 1 ? ((const uint8_t *)positions)[at] : ((const int32_t *)positions)[at];
            if (kept == k && !(y && to_float(y[at]) <= 0))
                sum += to_float(dy[at]);
        });
        dx[i] = from_float<T>(sum);
    }
}

template <class T, class I>
static __global__ void sum_grad_kernel(pool<I> p, int64_t count, const T *dy, bool mean, T *dx) {
    EACH(i, count) {
        const spot<I> s = spot_of(p, (I)i, p.in);
        const I first = s.plane * p.out;
        float sum = 0;
        each_covering(p.w, split(s.element, p.w.in), [&](const place<I> &o, I) {
            float d = to_float(dy[(first + flat(o, p.w.out)) * p.channels + s.channel]);
            sum += mean ? d / count_at(p, o) : d;
        });
        dx[i] = from_float<T>(sum);
    }
}

int zt_launch_pool_max_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, const void *position,
                            const void *y, void *dx) {
    int64_t count = p->planes * p->channels * elems_of(p->window.in);
    WITH_POOL(*p, count,
              (max_grad_kernel<T, I><<<blocks_for(count), BLOCK, 0, stream>>>(pool_of<I>(*p), count, (const T *)dy,
                                                                              position, (const T *)y, (T *)dx)));
}

int zt_launch_pool_sum_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, bool mean, void *dx) {
    int64_t count = p->planes * p->channels * elems_of(p->window.in);
    WITH_POOL(*p, count,
              (sum_grad_kernel<T, I>
               <<<blocks_for(count), BLOCK, 0, stream>>>(pool_of<I>(*p), count, (const T *)dy, mean, (T *)dx)));
}
