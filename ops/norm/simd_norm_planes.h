/* Vector loops of batch normalisation on blocked planes (ops/cpu/blocked_layout.h): `count` pixels of `vector` channels
 * side by side, `pixel` elements apart. A number per channel is an array of `vector` floats. The loops are compiled for
 * several instruction sets, chosen by CPUID; all give the same bits. No pointer may be NULL. */
#ifndef ZT_OPS_NORM_SIMD_NORM_PLANES_H
#define ZT_OPS_NORM_SIMD_NORM_PLANES_H

#include <stdint.h>

/* The mean, and the sum of squares around the mean. */
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

struct zt_norm_plane_kernels {
    zt_simd_moments *moments;
    zt_simd_sums *sums;
    zt_simd_normalise *normalise;
    zt_simd_normalise_grad *normalise_grad;
};
/* vector: 8 or 16, the channels of a block. */
const struct zt_norm_plane_kernels *zt_norm_plane_kernels(int vector);

#endif
