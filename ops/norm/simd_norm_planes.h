/* Vector loops of batch, group and instance normalisation on blocked planes: the pixels of one channel group of one
 * sample, whose `vector` channels lie side by side (ops/cpu/blocked_layout.h). A tensor is given by its first pixel of
 * the plane, all tensors of a call of one type. A number per channel is an array of `vector` floats. The loops are
 * compiled for several instruction sets, chosen by CPUID; all give the same bits, but for Swish. No pointer may be NULL
 * unless said. */
#ifndef ZT_OPS_NORM_SIMD_NORM_PLANES_H
#define ZT_OPS_NORM_SIMD_NORM_PLANES_H

#include "ops/cpu/blocked_layout.h"
#include "ops/norm/simd_norm.h"

/* Of x: the mean, rounded; the sum of the differences from it, which is what it is off by; the sum of their squares. */
struct zt_plane_moments {
    float *mean, *off, *squares;
};

struct zt_relu_planes {
    const void *dy, *y, *x;
};
/* The gradient of swish(v) = v / (1 + exp(-alpha v)), v = (x - mean) of_x + constant: g = dy swish'(v). */
struct zt_swish_grad {
    struct zt_row_map map; /* of_dy is not read */
    float alpha;
    void *g; /* as dy lies */
};

/* An activation f with f(0) = 0: Clip between low and high, Swish with alpha, HardSwish, ReLU. */
enum zt_plane_activation_kind { ZT_PLANE_CLIP, ZT_PLANE_SWISH, ZT_PLANE_HARD_SWISH, ZT_PLANE_RELU };
struct zt_plane_activation {
    enum zt_plane_activation_kind kind;
    float alpha, low, high;
};
/* The gradient dy f'(v), v = (x - mean) of_x + constant. */
struct zt_activation_planes {
    const void *dy, *x;
    struct zt_row_map map; /* of_dy is not read */
    const struct zt_plane_activation *f;
};

struct zt_norm_plane_kernels {
    void (*moments)(const struct zt_planes *p, const void *x, const struct zt_plane_moments *to);
    void (*sums)(const struct zt_planes *p, const void *dy, const void *x, const struct zt_row_sums *to);
    /* y = (x - mean) of_x + constant */
    void (*normalise)(const struct zt_planes *p, const void *x, const struct zt_row_map *map, void *y);
    /* dx = of_dy dy + constant + of_x (x - mean) */
    void (*normalise_grad)(const struct zt_planes *p, const void *dy, const void *x, const struct zt_row_map *map,
                           void *dx);
    /* With ReLU behind, NaN stays: y = max((x - mean) of_x + constant + z, 0), z NULL: none. */
    void (*normalise_relu)(const struct zt_planes *p, const void *x, const void *z, const struct zt_row_map *map,
                           void *y);
    /* As sums and normalise_grad of dz = dy where y > 0, or y is NaN, else 0; dz NULL: not written. */
    void (*sums_relu)(const struct zt_planes *p, const struct zt_relu_planes *in, const struct zt_row_sums *to);
    void (*normalise_grad_relu)(const struct zt_planes *p, const struct zt_relu_planes *in,
                                const struct zt_row_map *map, void *dx, void *dz);
    /* y = f((x - mean) of_x + constant) */
    void (*activate)(const struct zt_planes *p, const void *x, const struct zt_row_map *map,
                     const struct zt_plane_activation *f, void *y);
    /* As sums and normalise_grad of dy f'(v). */
    void (*sums_activation)(const struct zt_planes *p, const struct zt_activation_planes *in,
                            const struct zt_row_sums *to);
    void (*normalise_grad_activation)(const struct zt_planes *p, const struct zt_activation_planes *in,
                                      const struct zt_row_map *map, void *dx);
    /* g, and the sums of g and of g (x - mean); the mean in `to` is not read. */
    void (*swish_sums)(const struct zt_planes *p, const void *dy, const void *x, const struct zt_swish_grad *of,
                       const struct zt_row_sums *to);
    void (*add)(const struct zt_planes *p, const void *z, void *y); /* y += z */
};
/* vector: 8 or 16, the channels of a block; dtype: of the planes, float or bfloat16. */
const struct zt_norm_plane_kernels *zt_norm_plane_kernels(int vector, enum zt_dtype dtype);

#endif
