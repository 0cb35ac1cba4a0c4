/* Vector loops of Winograd's minimal filtering F(2x2, 3x3): 2 x 2 results of a 3 x 3 convolution from a tile of 4 x 4
 * inputs by 16 products instead of 36 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015):
 *
 *     Y = A' [ (G g G') * (B' d B) ] A        * element by element, summed over the input channels
 *
 * A transformed tile has 16 elements, each a vector of channels, `step` floats apart. */
#ifndef ZT_OPS_CONV_WINOGRAD_SIMD_WINOGRAD_H
#define ZT_OPS_CONV_WINOGRAD_SIMD_WINOGRAD_H

#include <stdint.h>

enum { ZT_WINOGRAD_TILE = 4, ZT_WINOGRAD_RESULTS = 2, ZT_WINOGRAD_ELEMENTS = 16 };

/* m[t][o] = sum over k of v[t][k] u[k][o], for tiles t and 1 to `panel` vectors o: u is [depth][vectors][vector], m has
 * rows of the same width. */
struct zt_winograd_product {
    const float *v, *u;
    float *m;
    int64_t v_row, tiles, depth;
    int vectors;
};
/* What becomes of the 2 x 2 results: + bias (a vector), then max(, 0) if relu; NaN stays. */
struct zt_winograd_finish {
    const float *bias;
    int relu;
};

struct zt_winograd_kernels {
    int vector, panel; /* floats; vectors of results that a product makes at once */
    /* G g G' of a vector of kernels, g[9][vector]. */
    void (*weight)(const float *g, float *u, int64_t step);
    /* B' d B: pixels of the tile lie `pixel` floats apart, rows `row`. */
    void (*input)(const float *d, int64_t row, int64_t pixel, float *v, int64_t step);
    void (*product)(const struct zt_winograd_product *p);
    /* The results in the order of rows to y[0..3]; NULL: not wanted. */
    void (*output)(const float *m, int64_t step, const struct zt_winograd_finish *f, float *const *y);
    /* The maximum of the results, or the first NaN, and its index 0..3. */
    void (*pool)(const float *m, int64_t step, const struct zt_winograd_finish *f, float *p, uint8_t *position);
};
/* NULL on machines without fused multiply-add. */
const struct zt_winograd_kernels *zt_winograd_kernels(void);

#endif
