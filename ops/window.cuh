/* Places of a window (ops/window.h) on the device, and walks over them: three axes, row-major. */
#ifndef ZT_OPS_WINDOW_CUH
#define ZT_OPS_WINDOW_CUH

#include "ops/launch_cuda.h"
#include "ops/types.cuh"

struct place {
    int64_t at[ZT_LAUNCH_AXES];
};

static __host__ __device__ inline int64_t elems_of(const int64_t *dim) {
    return dim[0] * dim[1] * dim[2];
}
static __device__ inline struct place split(int64_t flat, const int64_t *dim) {
    struct place p;
    p.at[2] = flat % dim[2];
    p.at[1] = flat / dim[2] % dim[1];
    p.at[0] = flat / dim[2] / dim[1];
    return p;
}

/* The element of a plane of `in` that window position k of result o covers, -1: padding. */
static __device__ inline int64_t covered(const struct zt_launch_window &w, const struct place &o,
                                         const struct place &k) {
    int64_t flat = 0;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++) {
        int64_t s = o.at[a] * w.stride[a] - w.pad[a] + k.at[a] * w.dilation[a];
        if (s < 0 || s >= w.in[a])
            return -1;
        flat = flat * w.in[a] + s;
    }
    return flat;
}

static __device__ inline int64_t flat(const struct place &p, const int64_t *dim) {
    return (p.at[0] * dim[1] + p.at[1]) * dim[2] + p.at[2];
}

/* ---- walks ---- */

static __device__ inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

/* Positions [first, end) of a window along an axis that lie inside the input. */
struct reach {
    int64_t start, first, end; /* position k covers element start + k dilation */
};

static __device__ inline struct reach reach_of(const struct zt_launch_window &w, int a, int64_t o, int64_t low,
                                               int64_t high) {
    struct reach r;
    r.start = o * w.stride[a] - w.pad[a];
    r.first = most(0, ceil_div(low - r.start, w.dilation[a]));
    r.end = least(w.kernel[a], ceil_div(high - r.start, w.dilation[a]));
    return r;
}

/* Calls visit(element of the plane, position in the window) for what the window of result o covers, in order. */
template <class Visit>
static __device__ void each_covered(const struct zt_launch_window &w, const struct place &o, Visit visit) {
    struct reach r[ZT_LAUNCH_AXES];
    for (int a = 0; a < ZT_LAUNCH_AXES; a++)
        r[a] = reach_of(w, a, o.at[a], 0, w.in[a]);
    for (int64_t i = r[0].first; i < r[0].end; i++)
        for (int64_t j = r[1].first; j < r[1].end; j++)
            for (int64_t k = r[2].first; k < r[2].end; k++)
                visit(((r[0].start + i * w.dilation[0]) * w.in[1] + r[1].start + j * w.dilation[1]) * w.in[2] +
                          r[2].start + k * w.dilation[2],
                      (i * w.kernel[1] + j) * w.kernel[2] + k);
}

/* Results [first, end) along an axis that may cover element i; those do whose `position` is not -1. */
static __device__ inline struct reach covering_of(const struct zt_launch_window &w, int a, int64_t i) {
    struct reach r;
    r.start = i + w.pad[a];
    r.first = most(0, ceil_div(r.start - (w.kernel[a] - 1) * w.dilation[a], w.stride[a]));
    r.end = least(w.out[a], r.start / w.stride[a] + 1);
    return r;
}
static __device__ inline int64_t position(const struct zt_launch_window &w, int a, const struct reach &r, int64_t o) {
    int64_t shift = r.start - o * w.stride[a];
    return shift % w.dilation[a] ? -1 : shift / w.dilation[a];
}

/* Calls visit(result, position in its window) for the windows that cover element i of the plane, in order. */
template <class Visit>
static __device__ void each_covering(const struct zt_launch_window &w, const struct place &i, Visit visit) {
    struct reach r[ZT_LAUNCH_AXES];
    for (int a = 0; a < ZT_LAUNCH_AXES; a++)
        r[a] = covering_of(w, a, i.at[a]);
    for (int64_t d = r[0].first; d < r[0].end; d++)
        for (int64_t h = r[1].first; h < r[1].end; h++)
            for (int64_t c = r[2].first; c < r[2].end; c++) {
                int64_t k0 = position(w, 0, r[0], d), k1 = position(w, 1, r[1], h), k2 = position(w, 2, r[2], c);
                struct place o = { { d, h, c } };
                if (k0 >= 0 && k1 >= 0 && k2 >= 0)
                    visit(o, (k0 * w.kernel[1] + k1) * w.kernel[2] + k2);
            }
}

#endif
