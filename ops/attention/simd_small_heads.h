/* Products of small matrices, one of each lane: element (r, c) of all lanes is a tile's row of zt_attention_kernels.
 * Chosen by CPUID. */
#ifndef ZT_OPS_ATTENTION_SIMD_SMALL_HEADS_H
#define ZT_OPS_ATTENTION_SIMD_SMALL_HEADS_H

#include <stdint.h>

/* Steps count floats. */
struct zt_lane_product {
    const float *a, *b;
    float *y;
    int64_t rows, cols, depth;
    int64_t a_row, a_term, b_term, b_col, y_row, y_col;
    float alpha;
    int lanes; /* that are computed, rounded up to a vector */
};
/* y[r][c] = alpha sum over terms t < depth of a[r][t] b[t][c] in every lane. y must not overlap a or b. */
typedef void zt_lane_product_run(const struct zt_lane_product *p);

/* NULL on machines without fused multiply-add. */
zt_lane_product_run *zt_lane_product(void);

#endif
