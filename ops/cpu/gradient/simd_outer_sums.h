/* Vector loops of weight gradients: products of channels of two tensors, each with each, summed over places. */
#ifndef ZT_OPS_CPU_GRADIENT_SIMD_OUTER_SUMS_H
#define ZT_OPS_CPU_GRADIENT_SIMD_OUTER_SUMS_H

#include <stdint.h>

enum { ZT_OUTER_VECTORS = 4 }; /* the most of any kernels */

/* m[r][v] += sum over places i of a[i * a_step + r] b[v][i * b_step]: r a channel, v a vector of channels. */
struct zt_outer_sums {
    const float *a, *b[ZT_OUTER_VECTORS];
    int64_t a_step, b_step, places;
    float *m;
    int64_t m_row; /* floats from a row to the next; vectors of a row are adjacent */
    int rows, vectors;
    const float *fetch; /* brought into the second cache: so many places, fetch_step apart */
    int64_t fetch_step;
};

struct zt_outer_kernels {
    int vector, rows, vectors; /* floats; the most that a run takes */
    void (*run)(const struct zt_outer_sums *s);
    /* m += the sum of b over places. */
    void (*add)(const float *b, int64_t b_step, int64_t places, float *m);
};
/* NULL on machines without fused multiply-add. */
const struct zt_outer_kernels *zt_outer_kernels(void);

#endif
