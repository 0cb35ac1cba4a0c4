/* Convolutions whose groups are narrower than a vector, on planes whose pixels are `vector` channels side by side
 * (blocked_layout.h). A vector holds vector / width whole groups, `width` channels each on both sides. Shuffles within
 * the vector bring together the channels of a group; they cost no more than the products.
 *
 * Results lie on a grid and all read the same taps: where windows reach outside the plane, the caller adds margins of
 * zeros. Rounding: fused multiply-adds, tap by tap and in a tap channel by channel. */
#ifndef ZT_OPS_CONV_SIMD_GROUP_H
#define ZT_OPS_CONV_SIMD_GROUP_H

#include <stdint.h>

enum { ZT_GROUP_TAPS = 169 /* 13 x 13 */ };

struct zt_simd_group {
    int64_t rows, cols;       /* of results */
    int64_t x_row, x_step;    /* elements from what a result reads to what the next row's, the next column's does */
    int64_t y_row, y_step;    /* the same of the results */
    int taps;                 /* 0: results are the bias */
    int64_t x[ZT_GROUP_TAPS]; /* elements to what result (0, 0) reads of tap t */
    int64_t w[ZT_GROUP_TAPS]; /* elements to the tap's weights, [width][vector] */
};

/* y[r][c][l] = bias[l] + sum over taps t, k < width of w[t][k][l] x[r][c][t][channel k of l's group]. relu: max(y, 0),
 * NaN stays. */
typedef void zt_simd_group_run(const struct zt_simd_group *g, const float *x, const float *w, const float *bias,
                               int relu, float *y);
/* w[t][k][l] += sum over results of x[t][l] y[channel (l + k) mod width of l's group]: the gradient of the weight
 * between these two channels. */
typedef void zt_simd_group_weight_gradient(const struct zt_simd_group *g, const float *x, const float *y, float *w);

struct zt_simd_group_kernel {
    int vector, width;
    zt_simd_group_run *run;
    zt_simd_group_weight_gradient *weight_gradient;
};
/* The kernel for the widest vectors of this machine, NULL where it has none for groups of this width. */
const struct zt_simd_group_kernel *zt_simd_group_kernel(int64_t width);

#endif
