/* Our own CPU kernels on planes whose pixels are `lanes` channels side by side (blocked_layout.h), in vectors of that
 * many floats. Compiled for several instruction sets, chosen by CPUID; all give the same bits. No pointer may be NULL
 * unless said. */
#ifndef ZT_OPS_CPU_SIMD_PLANES_H
#define ZT_OPS_CPU_SIMD_PLANES_H

#include <stdint.h>

/* ---- pooling of a plane ---- */

enum { ZT_POOL_Z, ZT_POOL_Y, ZT_POOL_X, ZT_POOL_AXES }; /* of a plane; with fewer, the first ones have one element */
struct zt_simd_pool {
    int64_t in[ZT_POOL_AXES], out[ZT_POOL_AXES], kernel[ZT_POOL_AXES], stride[ZT_POOL_AXES], dilation[ZT_POOL_AXES],
        pad[ZT_POOL_AXES];
    int64_t pixel; /* elements from a pixel to the next */
    int wide;      /* positions are int32_t, else uint8_t */
};

/* The first maximum of each window, or its first NaN; position (may be NULL): where in the window it was. */
typedef void zt_simd_max(const struct zt_simd_pool *p, const float *x, float *y, void *position);
/* dx = dy put back to where the maximum was, 0 elsewhere. relu (may be NULL): a result of ReLU in the shape of dy;
 * where it is not positive, nothing flows. */
typedef void zt_simd_max_grad(const struct zt_simd_pool *p, const float *dy, const float *relu, const void *position,
                              float *dx);

/* Sums over windows. share[axis][o] (NULL: 1 everywhere) are numbers by whose product a sum is divided. */
enum zt_simd_sum_kind { ZT_SIMD_SUM, ZT_SIMD_SUM_ABS, ZT_SIMD_ROOT_OF_SQUARES };
typedef void zt_simd_sum(const struct zt_simd_pool *p, enum zt_simd_sum_kind kind, const float *const *share,
                         const float *x, float *y);
/* dx = dy divided, summed over the windows that hold an element: the way back of ZT_SIMD_SUM. */
typedef void zt_simd_sum_grad(const struct zt_simd_pool *p, const float *const *share, const float *dy, float *dx);

/* ---- batch normalisation of a plane of `count` pixels, `pixel` elements apart; what is a number a channel holds
 * `lanes` floats ---- */

/* Mean, and sum of squares around it. */
typedef void zt_simd_moments(int64_t count, int64_t pixel, const float *x, float *mean, float *squares);
/* Sums of dy and of dy (x - mean). */
typedef void zt_simd_sums(int64_t count, int64_t pixel, const float *dy, const float *x, const float *mean,
                          float *sum_dy, float *sum_dyx);
/* y = (x - mean) scale + bias */
typedef void zt_simd_normalise(int64_t count, int64_t pixel, const float *x, const float *mean, const float *scale,
                               const float *bias, float *y);
/* dx = of_dy dy + constant + of_x (x - mean) */
typedef void zt_simd_normalise_grad(int64_t count, int64_t pixel, const float *dy, const float *x, const float *mean,
                                    const float *of_dy, const float *constant, const float *of_x, float *dx);

/* ---- resampling of a line of pixels: `lanes` floats each ---- */

/* to[p] = sum over t < taps (1 or more) of weight[t] from[t][p]; pixels of `from` are `pixel` elements apart, those of
 * `to` side by side. */
typedef void zt_simd_mix(int64_t pixels, int64_t pixel, int taps, const float *const *from, const float *weight,
                         float *to);
/* Result o of `size` is the sum over begin[o] <= t < begin[o + 1] of weight[t] from[index[t]]; without any t it is
 * `outside`, a pixel. */
struct zt_simd_axis {
    int64_t size;
    const int32_t *begin, *index;
    const float *weight;
};
typedef void zt_simd_sample(const struct zt_simd_axis *axis, int64_t from_pixel, const float *from, int64_t to_pixel,
                            const float *outside, float *to);

struct zt_simd_kernels {
    int lanes;
    zt_simd_max *max;
    zt_simd_max_grad *max_grad;
    zt_simd_sum *sum;
    zt_simd_sum_grad *sum_grad;
    zt_simd_moments *moments;
    zt_simd_sums *sums;
    zt_simd_normalise *normalise;
    zt_simd_normalise_grad *normalise_grad;
    zt_simd_mix *mix;
    zt_simd_sample *sample;
};
/* For 8 or 16 lanes. */
const struct zt_simd_kernels *zt_simd_kernels(int lanes);

#endif
