#include "ops/pool/simd_pool.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The position of element o; NULL where none are kept. */
static inline void *position_at(const struct zt_simd_pool *p, void *positions, int64_t o) {
    return positions ? (char *)positions + o * (p->wide ? 4 : 1) : NULL;
}

/* Positions first..end-1 of the window at result o lie inside the plane along this axis. */
struct reach {
    int64_t first, end, start; /* start: where position 0 lies, may be outside */
};
static inline struct reach reach_of(const struct zt_simd_pool *p, int axis, int64_t o) {
    struct reach r = { .start = o * p->stride[axis] - p->pad[axis] };
    int64_t d = p->dilation[axis];
    if (r.start >= 0 && r.start + (p->kernel[axis] - 1) * d < p->in[axis]) { /* most of them, without a division */
        r.end = p->kernel[axis];
        return r;
    }
    r.first = r.start < 0 ? (-r.start + d - 1) / d : 0;
    r.end = r.start < p->in[axis] ? least(p->kernel[axis], (p->in[axis] - r.start + d - 1) / d) : 0;
    return r;
}

/* A flat plane, 2x2 side by side: each window owns its pixels, none is outside. */
static inline int is_dense_2x2(const struct zt_simd_pool *p) {
    if (p->in[ZT_POOL_Z] != 1 || p->out[ZT_POOL_Z] != 1 || p->kernel[ZT_POOL_Z] != 1 || p->pad[ZT_POOL_Z] != 0)
        return 0;
    for (int a = ZT_POOL_Y; a <= ZT_POOL_X; a++)
        if (p->kernel[a] != 2 || p->stride[a] != 2 || p->dilation[a] != 1 || p->pad[a] != 0 || 2 * p->out[a] > p->in[a])
            return 0;
    return 1;
}

/* Pixels of the plane where one window is all of it, else 0. */
enum { PARTS = 4 };
static inline int64_t global_pixels(const struct zt_simd_pool *p) {
    int64_t pixels = 1;
    for (int a = 0; a < ZT_POOL_AXES; a++) {
        if (p->out[a] != 1 || p->pad[a] != 0 || p->kernel[a] != p->in[a] || p->dilation[a] != 1)
            return 0;
        pixels *= p->in[a];
    }
    return pixels;
}

/* Elements between neighbours of the window along an axis. */
static inline int64_t window_step(const struct zt_simd_pool *p, int axis) {
    int64_t step = p->dilation[axis] * p->pixel;
    for (int a = axis + 1; a < ZT_POOL_AXES; a++)
        step *= p->in[a];
    return step;
}

/* The window of a result: its reach along each axis, where position 0 of all axes lies, and the elements between
 * neighbours along each axis. */
struct pool_window {
    struct reach reach[ZT_POOL_AXES];
    int64_t start, step[ZT_POOL_AXES];
};
static inline struct pool_window window_of(const struct zt_simd_pool *p, int64_t oz, int64_t oy) {
    return (struct pool_window){
        .reach = { reach_of(p, ZT_POOL_Z, oz), reach_of(p, ZT_POOL_Y, oy) },
        .step = { window_step(p, ZT_POOL_Z), window_step(p, ZT_POOL_Y), window_step(p, ZT_POOL_X) },
    };
}
static inline void window_move(const struct zt_simd_pool *p, int64_t ox, struct pool_window *w) {
    struct reach *r = w->reach;
    r[ZT_POOL_X] = reach_of(p, ZT_POOL_X, ox);
    w->start = ((r[ZT_POOL_Z].start * p->in[ZT_POOL_Y] + r[ZT_POOL_Y].start) * p->in[ZT_POOL_X] + r[ZT_POOL_X].start) *
               p->pixel;
}
/* Whether the windows of GROUP results from ox on lie between the sides of the plane: they differ by their start only.
 */
enum { GROUP = 4 };
static inline int is_group(const struct zt_simd_pool *p, int64_t ox) {
    const int a = ZT_POOL_X;
    int64_t start = ox * p->stride[a] - p->pad[a], last = start + (GROUP - 1) * p->stride[a];
    return ox + GROUP <= p->out[a] && start >= 0 && last + (p->kernel[a] - 1) * p->dilation[a] < p->in[a];
}

/* Visits every result of a plane, one or GROUP at a time (count), o: the first one's element, w: its window. */
#define EACH_RESULT(p, o, w, count)                                                                                    \
    for (int64_t o = 0, oz = 0; oz < (p)->out[ZT_POOL_Z]; oz++)                                                        \
        for (int64_t oy = 0; oy < (p)->out[ZT_POOL_Y]; oy++)                                                           \
            for (struct pool_window w = window_of(p, oz, oy), *again = &w; again; again = NULL)                        \
                for (int64_t ox = 0, count = 0;                                                                        \
                     ox < (p)->out[ZT_POOL_X] && (count = is_group(p, ox) ? GROUP : 1, window_move(p, ox, &w), 1);     \
                     ox += count, o += count * (p)->pixel)

/* Visits every position of the window that lies inside the plane: `at` elements from the window's start. */
#define EACH_POSITION(p, w, kz, ky, kx, at)                                                                            \
    for (int64_t kz = (w)->reach[ZT_POOL_Z].first; kz < (w)->reach[ZT_POOL_Z].end; kz++)                               \
        for (int64_t ky = (w)->reach[ZT_POOL_Y].first; ky < (w)->reach[ZT_POOL_Y].end; ky++)                           \
            for (int64_t kx = (w)->reach[ZT_POOL_X].first,                                                             \
                         at = kz * (w)->step[ZT_POOL_Z] + ky * (w)->step[ZT_POOL_Y] + kx * (w)->step[ZT_POOL_X];       \
                 kx < (w)->reach[ZT_POOL_X].end; kx++, at += (w)->step[ZT_POOL_X])

#define BODY "ops/pool/simd_pool.inc"
#include "ops/cpu/simd_plane_targets.inc"

const struct zt_pool_kernels *zt_pool_kernels(int vector) {
    return OF_VECTOR(&kernels, vector);
}
