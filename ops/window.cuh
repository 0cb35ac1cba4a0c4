/* Places of a window (ops/window.h) on the device: three axes, row-major. */
#ifndef ZT_OPS_WINDOW_CUH
#define ZT_OPS_WINDOW_CUH

#include "ops/launch_cuda.h"

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

/* The result whose window position k covers element i of a plane of `in`, -1: none. */
static __device__ inline int64_t covering(const struct zt_launch_window &w, const struct place &i,
                                          const struct place &k) {
    int64_t flat = 0;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++) {
        int64_t t = i.at[a] + w.pad[a] - k.at[a] * w.dilation[a];
        if (t < 0 || t % w.stride[a] || t / w.stride[a] >= w.out[a])
            return -1;
        flat = flat * w.out[a] + t / w.stride[a];
    }
    return flat;
}

#endif
