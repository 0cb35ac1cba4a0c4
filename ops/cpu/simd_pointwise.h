/* Vector loops of the weight gradients of 1 x 1 convolutions: products of channels of two tensors, summed over places.
 */
#ifndef ZT_OPS_CPU_SIMD_POINTWISE_H
#define ZT_OPS_CPU_SIMD_POINTWISE_H

#include <stdint.h>

enum { ZT_POINTWISE_VECTORS = 4 }; /* the most of any kernels */

/* m[r][v] += sum over places i of a[i * a_step + r] b[v][i * b_step]: r a channel, v a vector of channels. */
struct zt_pointwise_sums {
    const float *a, *b[ZT_POINTWISE_VECTORS];
    int64_t a_step, b_step, places;
    float *m;
    int64_t m_row; /* floats from a row to the next; vectors of a row are adjacent */
    int rows, vectors;
    const float *fetch; /* brought into the second cache: so many places, fetch_step apart */
    int64_t fetch_step;
};

struct zt_pointwise_kernels {
    int vector, rows, vectors; /* floats; the most that a run takes */
    void (*run)(const struct zt_pointwise_sums *s);
    /* m += the sum of b over places. */
    void (*add)(const float *b, int64_t b_step, int64_t places, float *m);
};
/* NULL on machines without fused multiply-add. */
const struct zt_pointwise_kernels *zt_pointwise_kernels(void);

#endif
