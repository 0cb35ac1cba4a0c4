/* Direct 2-D convolution on planes whose pixels are `vector` channels side by side (blocked_layout.h), for one sample
 * and one block of `vector` output channels. Weights are [input block][kernel row][kernel column][input channel][output
 * channel].
 *
 * Rounding: the products of one tap (kernel position, input block) are summed on their own, and the sums of the taps
 * are added to the bias in order. Two short sequences of additions round less than a long one, so that max-pool ties
 * and ReLU kinks are more often decided the way exact arithmetic does. */
#ifndef ZT_OPS_CONV_SIMD_SIMD_CONV_H
#define ZT_OPS_CONV_SIMD_SIMD_CONV_H

#include <stdint.h>

struct zt_simd_conv {
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2]; /* height, width */
    int64_t blocks;                                                   /* of input channels */
    int relu;                                                         /* y = max(y, 0), NaN stays */
};

/* x: the sample's [blocks][height][width][vector]; w: [blocks][kernel][kernel][vector][vector]; b: [vector]; y:
 * [out][out][vector]. */
typedef void zt_simd_conv_run(const struct zt_simd_conv *c, const float *x, const float *w, const float *b, float *y);

/* The kernel for vectors of 16 floats; NULL on machines without AVX-512, and for vectors of 8: sixteen registers hold
 * too few results, and oneDNN's kernels are up to twice as fast there. */
zt_simd_conv_run *zt_simd_conv_kernel(int vector);

#endif
