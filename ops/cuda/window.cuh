/* Sliding windows (launch_window.h) on the device: which elements a window covers, and which windows cover an element.
 * Planes have three axes and are row-major. */
#ifndef ZT_OPS_CUDA_WINDOW_CUH
#define ZT_OPS_CUDA_WINDOW_CUH

#include "ops/cuda/launch_window.h"
#include "ops/cuda/types.cuh"

/* A window of integers I. The functions below take this struct or struct zt_launch_window. 32-bit integers are faster:
 * 64-bit divisions are slow. */
template <class I> struct window {
    I in[ZT_LAUNCH_AXES], out[ZT_LAUNCH_AXES], kernel[ZT_LAUNCH_AXES];
    I stride[ZT_LAUNCH_AXES], dilation[ZT_LAUNCH_AXES], pad[ZT_LAUNCH_AXES], pad_end[ZT_LAUNCH_AXES];
};
template <class I> static inline window<I> narrowed(const struct zt_launch_window &w) {
    window<I> n;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++) {
        n.in[a] = (I)w.in[a], n.out[a] = (I)w.out[a], n.kernel[a] = (I)w.kernel[a];
        n.stride[a] = (I)w.stride[a], n.dilation[a] = (I)w.dilation[a];
        n.pad[a] = (I)w.pad[a], n.pad_end[a] = (I)w.pad_end[a];
    }
    return n;
}

template <class I> struct place { I at[ZT_LAUNCH_AXES]; };

template <class I> static __host__ __device__ inline I elems_of(const I *dim) {
    return dim[0] * dim[1] * dim[2];
}
template <class I> static __device__ inline place<I> split(I flat, const I *dim) {
    const I row = flat / dim[2];
    return { { row / dim[1], row % dim[1], flat % dim[2] } };
}
template <class I> static __device__ inline I flat(const place<I> &p, const I *dim) {
    return (p.at[0] * dim[1] + p.at[1]) * dim[2] + p.at[2];
}

/* The element of an input plane that position k of the window of result o covers; -1: padding. */
template <class W, class I> static __device__ inline I covered(const W &w, const place<I> &o, const place<I> &k) {
    I flat = 0;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++) {
        const I s = o.at[a] * w.stride[a] - w.pad[a] + k.at[a] * w.dilation[a];
        if (s < 0 || s >= w.in[a])
            return -1;
        flat = flat * w.in[a] + s;
    }
    return flat;
}

/* ---- loops ---- */

/* A division by a dilation or a stride, which is 1 or 2 for most windows: then no division, of some 20 instructions. */
template <class I> static __device__ inline I floor_div(I a, I b) { /* a not negative */
    return b == 1 ? a : b == 2 ? a >> 1 : a / b;
}
template <class I> static __device__ inline I ceil_div(I a, I b) {
    return b == 1 ? a : b == 2 ? (a + 1) >> 1 : a / b + (a % b > 0);
}
template <class I> static __device__ inline I smaller(I a, I b) {
    return a < b ? a : b;
}

/* Positions [first, end) of a window along an axis that lie inside the input. */
template <class I> struct reach { I start, first, end; /* position k covers element start + k dilation */ };

template <class W, class I> static __device__ inline reach<I> reach_of(const W &w, int a, I o, I low, I high) {
    const I start = o * w.stride[a] - w.pad[a], first = ceil_div(low - start, w.dilation[a]);
    return { start, first > 0 ? first : 0, smaller(w.kernel[a], ceil_div(high - start, w.dilation[a])) };
}

/* Calls visit(element of the plane, position in the window) for every element that the window of result o covers, in
 * row-major order. */
template <class W, class I, class Visit>
static __device__ void each_covered(const W &w, const place<I> &o, Visit visit) {
    reach<I> r[ZT_LAUNCH_AXES];
    for (int a = 0; a < ZT_LAUNCH_AXES; a++)
        r[a] = reach_of(w, a, o.at[a], (I)0, w.in[a]);
    for (I i = r[0].first; i < r[0].end; i++)
        for (I j = r[1].first; j < r[1].end; j++)
            for (I k = r[2].first; k < r[2].end; k++)
                visit(((r[0].start + i * w.dilation[0]) * w.in[1] + r[1].start + j * w.dilation[1]) * w.in[2] +
                          r[2].start + k * w.dilation[2],
                      (i * w.kernel[1] + j) * w.kernel[2] + k);
}

/* Results [first, end) along an axis whose windows may cover element i. They do where `position` is not -1. */
template <class W, class I> static __device__ inline reach<I> covering_of(const W &w, int a, I i) {
    const I start = i + w.pad[a], first = ceil_div(start - (w.kernel[a] - 1) * w.dilation[a], w.stride[a]);
    return { start, first > 0 ? first : 0, smaller(w.out[a], floor_div(start, w.stride[a]) + 1) };
}
template <class W, class I> static __device__ inline I position(const W &w, int a, const reach<I> &r, I o) {
    const I shift = r.start - o * w.stride[a];
    return w.dilation[a] == 1 ? shift : shift % w.dilation[a] ? -1 : shift / w.dilation[a];
}

/* Calls visit(result, position in its window) for every window that covers element i of the plane, in row-major
 * order of the results. */
template <class W, class I, class Visit>
static __device__ void each_covering(const W &w, const place<I> &i, Visit visit) {
    reach<I> r[ZT_LAUNCH_AXES];
    for (int a = 0; a < ZT_LAUNCH_AXES; a++)
        r[a] = covering_of(w, a, i.at[a]);
    for (I d = r[0].first; d < r[0].end; d++) {
        const I k0 = position(w, 0, r[0], d);
        for (I h = r[1].first; k0 >= 0 && h < r[1].end; h++) {
            const I k1 = position(w, 1, r[1], h);
            for (I c = r[2].first; k1 >= 0 && c < r[2].end; c++) {
                const I k2 = position(w, 2, r[2], c);
                if (k2 >= 0)
                    visit(place<I>{ { d, h, c } }, (k0 * w.kernel[1] + k1) * w.kernel[2] + k2);
            }
        }
    }
}

#endif
