/* Direct 2-D convolution on planes whose pixels are `lanes` channels side by side (blocked_layout.h), for one sample
 * and one block of `lanes` output channels. Weights are [input block][kernel row][kernel column][input lane][output
 * lane].
 *
 * Rounding: the products of one tap (kernel position, input block) are summed on their own, and the sums of the taps
 * are added to the bias in order. Two short chains of additions round less than one long one, so that max-pool ties and
 * ReLU kinks are more often decided the way exact arithmetic does. */
#ifndef ZT_OPS_CONV_SIMD_CONV_H
#define ZT_OPS_CONV_SIMD_CONV_H

#include <stdint.h>

struct zt_simd_conv {
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2]; /* height, width */
    int64_t blocks;                                                   /* of input channels */
    int relu;                                                         /* y = max(y, 0), NaN stays */
};

/* x: the sample's [blocks][height][width][lanes]; w: [blocks][kernel][kernel][lanes][lanes]; b: [lanes]; y:
 * [out][out][lanes]. */
typedef void zt_simd_conv_run(const struct zt_simd_conv *c, const float *x, const float *w, const float *b, float *y);

/* The kernel for 16 lanes; NULL on machines without AVX-512, and for 8 lanes: sixteen registers hold too few results,
 * and oneDNN's kernels are up to twice as fast there. */
zt_simd_conv_run *zt_simd_conv_kernel(int lanes);

#endif
