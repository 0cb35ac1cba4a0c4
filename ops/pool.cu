/* Pools and their gradients (formulas: ops/pool.c), a thread an element of the result. A gradient gathers from the
 * windows that cover its element, in a fixed order. */
#include "ops/launch_cuda.h"
#include "ops/types.cuh"
#include "ops/window.cuh"

#include <math_constants.h>

/* What a mean divides by at result o. */
static __device__ float count_at(const struct zt_launch_pool &p, const struct place &o) {
    float count = 1;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++) {
        const struct zt_launch_window &w = p.window;
        struct reach r = reach_of(w, a, o.at[a], p.count_include_pad ? -w.pad[a] : 0,
                                  w.in[a] + (p.count_include_pad ? w.pad_end[a] : 0));
        count *= (float)most(r.end - r.first, 0);
    }
    return count;
}

/* Element i of tensors whose planes have `elems` elements: which plane, which channel beside it, which element. */
struct spot {
    int64_t plane, channel, element;
};
static __device__ struct spot spot_of(const struct zt_launch_pool &p, int64_t i, int64_t elems) {
    struct spot s = { i / p.channels / elems, i % p.channels, i / p.channels % elems };
    return s;
}

/* ---- forward ---- */

/* ONNX's Indices: the place of an element in the whole input, its plane counted along rows or along columns. */
static __device__ int64_t index_of(const struct zt_launch_pool &p, int64_t plane, int64_t element) {
    const int64_t *in = p.window.in;
    struct place at = split(element, in);
    int64_t place = p.columns ? at.at[0] + in[0] * (at.at[1] + in[1] * at.at[2]) : element;
    return plane * elems_of(in) + place;
}

template <class T>
static __global__ void max_kernel(struct zt_launch_pool p, const T *x, T *y, void *position, int64_t *indices) {
    const int64_t in = elems_of(p.window.in), out = elems_of(p.window.out);
    EACH(i, p.planes * p.channels * out) {
        const struct spot s = spot_of(p, i, out);
        const T *plane = x + s.plane * in * p.channels + s.channel;
        float best = -CUDART_INF_F;
        int64_t at = -1, element = 0;
        each_covered(p.window, split(s.element, p.window.out), [&](int64_t from, int64_t k) {
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

template <class T> static __global__ void mean_kernel(struct zt_launch_pool p, const T *x, T *y) {
    const int64_t in = elems_of(p.window.in), out = elems_of(p.window.out);
    EACH(i, p.planes * p.channels * out) {
        const struct spot s = spot_of(p, i, out);
        const T *plane = x + s.plane * in * p.channels + s.channel;
        struct place o = split(s.element, p.window.out);
        float sum = 0;
        each_covered(p.window, o, [&](int64_t from, int64_t) { sum += to_float(plane[from * p.channels]); });
        y[i] = from_float<T>(sum / count_at(p, o));
    }
}

template <class T> static __global__ void norm_kernel(struct zt_launch_pool p, const T *x, T *y) {
    const int64_t in = elems_of(p.window.in), out = elems_of(p.window.out);
    EACH(i, p.planes * p.channels * out) {
        const struct spot s = spot_of(p, i, out);
        const T *plane = x + s.plane * in * p.channels + s.channel;
        float sum = 0;
        each_covered(p.window, split(s.element, p.window.out), [&](int64_t from, int64_t) {
            float v = to_float(plane[from * p.channels]);
            sum += p.p == 2 ? v * v : powf(fabsf(v), p.p);
        });
        y[i] = from_float<T>(powf(sum, 1 / p.p));
    }
}

int zt_launch_pool_max(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y, void *position,
                       int64_t *indices) {
    int64_t count = p->planes * p->channels * elems_of(p->window.out);
    WITH_TYPE(p->dtype, count,
              (max_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*p, (const T *)x, (T *)y, position, indices)));
}

int zt_launch_pool_mean(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    int64_t count = p->planes * p->channels * elems_of(p->window.out);
    WITH_TYPE(p->dtype, count, (mean_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*p, (const T *)x, (T *)y)));
}

int zt_launch_pool_norm(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    int64_t count = p->planes * p->channels * elems_of(p->window.out);
    WITH_TYPE(p->dtype, count, (norm_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*p, (const T *)x, (T *)y)));
}

/* ---- backward ---- */

template <class T>
static __global__ void max_grad_kernel(struct zt_launch_pool p, const T *dy, const void *positions, const T *y, T *dx) {
    const int64_t in = elems_of(p.window.in), out = elems_of(p.window.out);
    EACH(i, p.planes * p.channels * in) {
        const struct spot s = spot_of(p, i, in);
        const int64_t first = s.plane * out;
        float sum = 0;
        each_covering(p.window, split(s.element, p.window.in), [&](const struct place &o, int64_t k) {
            int64_t at = (first + flat(o, p.window.out)) * p.channels + s.channel;
            int64_t kept =
                p.position_bytes == 1 ? ((const uint8_t *)positions)[at] : (int64_t)((const int32_t *)positions)[at];
            if (kept == k && !(y && to_float(y[at]) <= 0))
                sum += to_float(dy[at]);
        });
        dx[i] = from_float<T>(sum);
    }
}

template <class T> static __global__ void sum_grad_kernel(struct zt_launch_pool p, const T *dy, bool mean, T *dx) {
    const int64_t in = elems_of(p.window.in), out = elems_of(p.window.out);
    EACH(i, p.planes * p.channels * in) {
        const struct spot s = spot_of(p, i, in);
        const int64_t first = s.plane * out;
        float sum = 0;
        each_covering(p.window, split(s.element, p.window.in), [&](const struct place &o, int64_t) {
            float d = to_float(dy[(first + flat(o, p.window.out)) * p.channels + s.channel]);
            sum += mean ? d / count_at(p, o) : d;
        });
        dx[i] = from_float<T>(sum);
    }
}

int zt_launch_pool_max_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, const void *position,
                            const void *y, void *dx) {
    int64_t count = p->planes * p->channels * elems_of(p->window.in);
    WITH_TYPE(p->dtype, count,
              (max_grad_kernel<T>
               <<<blocks_for(count), BLOCK, 0, stream>>>(*p, (const T *)dy, position, (const T *)y, (T *)dx)));
}

int zt_launch_pool_sum_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, bool mean, void *dx) {
    int64_t count = p->planes * p->channels * elems_of(p->window.in);
    WITH_TYPE(p->dtype, count,
              (sum_grad_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*p, (const T *)dy, mean, (T *)dx)));
}
