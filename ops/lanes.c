#include "ops/lanes.h"

#include <stddef.h>
#include <string.h>

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Positions first..end-1 of the window at result o lie inside the plane along this axis. */
struct reach {
    int64_t first, end, start; /* start: where position 0 lies, may be outside */
};
static inline struct reach reach_of(const struct zt_lane_pool *p, int axis, int64_t o) {
    struct reach r = { .start = o * p->stride[axis] - p->pad[axis] };
    int64_t d = p->dilation[axis];
    r.first = r.start < 0 ? (-r.start + d - 1) / d : 0;
    r.end = r.start < p->in[axis] ? least(p->kernel[axis], (p->in[axis] - r.start + d - 1) / d) : 0;
    return r;
}

/* 2x2 side by side: each window owns its pixels, none is outside. */
static inline int is_dense_2x2(const struct zt_lane_pool *p) {
    for (int a = 0; a < 2; a++)
        if (p->kernel[a] != 2 || p->stride[a] != 2 || p->dilation[a] != 1 || p->pad[a] != 0 || 2 * p->out[a] > p->in[a])
            return 0;
    return 1;
}

#define LANES 16
#define TARGET
#define NAME(id) id##_16
#include "ops/lanes_body.inc"
#define LANES 8
#define TARGET
#define NAME(id) id##_8
#include "ops/lanes_body.inc"
#if defined(__x86_64__)
#define LANES    16
#define TARGET   __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define NAME(id) id##_16_avx512
#include "ops/lanes_body.inc"
#define LANES    8
#define TARGET   __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define NAME(id) id##_8_avx512
#include "ops/lanes_body.inc"
#define LANES    16
#define TARGET   __attribute__((target("avx2")))
#define NAME(id) id##_16_avx2
#include "ops/lanes_body.inc"
#define LANES    8
#define TARGET   __attribute__((target("avx2")))
#define NAME(id) id##_8_avx2
#include "ops/lanes_body.inc"
#endif

const struct zt_lane_kernels *zt_lane_kernels(int lanes) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return lanes == 16 ? &kernels_16_avx512 : &kernels_8_avx512;
    if (__builtin_cpu_supports("avx2"))
        return lanes == 16 ? &kernels_16_avx2 : &kernels_8_avx2;
#endif
    return lanes == 16 ? &kernels_16 : &kernels_8;
}
