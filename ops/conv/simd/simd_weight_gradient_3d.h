/* Weight gradients of a convolution from a row of results, on planes whose pixels are 8 channels side by side: for
 * machines with AVX2 alone, where oneDNN 2.6 has no such kernel for three spatial axes. */
#ifndef ZT_OPS_CONV_SIMD_WEIGHT_GRADIENT_3D_H
#define ZT_OPS_CONV_SIMD_WEIGHT_GRADIENT_3D_H

#include <stdint.h>

enum { ZT_WEIGHT_GRADIENT_WIDTH = 8 };

/* For `blocks` (1 or 2) blocks b of output channels, input channel i and output channel o:
 *     w[b][i][o] += sum over p < pixels of x[p][i] dy[b][p][o]
 * Elements: pixels of x lie x_step apart, those of dy side by side, blocks dy_block and w_block. The sum over a row is
 * made in order and added as one. */
struct zt_simd_weight_gradient {
    int64_t pixels, x_step, dy_block, w_block;
    int blocks;
};
typedef void zt_simd_weight_gradient_run(const struct zt_simd_weight_gradient *r, const float *x, const float *dy,
                                         float *w);

/* NULL where the machine has other vectors, or a library good ones. */
zt_simd_weight_gradient_run *zt_simd_weight_gradient_kernel(void);

#endif
