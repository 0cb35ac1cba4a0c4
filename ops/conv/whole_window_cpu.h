/* Convolutions with one result a channel, whose window is the whole plane without padding, as products of matrices: x
 * is [samples, c * kernel], w [m, c * kernel], y [samples, m], all plain. */
#ifndef ZT_OPS_CONV_WHOLE_WINDOW_CPU_H
#define ZT_OPS_CONV_WHOLE_WINDOW_CPU_H

#include "ops/conv/conv_cpu.h"
#include "ops/cpu/simd_gemm.h"

/* Sets the product of a direction; false where the convolution is another one, of several groups, or the machine has no
 * fused multiply-add. */
bool zt_whole_window_product(const struct zt_conv *c, enum zt_conv_direction direction, struct zt_simd_gemm *to);
/* Workspace bytes; the workspace must be aligned to 64. */
size_t zt_whole_window_bytes(const struct zt_simd_gemm *product, int threads);

/* Those that the direction reads and writes; NULL: not wanted. */
struct zt_whole_window_data {
    float *x, *w, *y;
    const float *bias;                /* of y, or of x: a number a channel; NULL: none */
    const struct zt_planes *x_planes; /* to x, with a bias */
    float *db;                        /* to w: the sum of dy over the samples */
    bool accumulate;                  /* w is added to */
};
void zt_whole_window_run(const struct zt_simd_gemm *product, enum zt_conv_direction direction,
                         const struct zt_whole_window_data *data, void *workspace, int threads);

#endif
