/* Vector loops of Winograd's minimal filtering F(2x2, 3x3): 2 x 2 results of a 3 x 3 convolution from a tile of 4 x 4
 * inputs by 16 products instead of 36 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015):
 *
 *     Y = A' [ (G g G') * (B' d B) ] A        * element by element, summed over the input channels
 *
 * and the gradient of the weights, F(3x3, 2x2), from the same transformed inputs and 2 x 2 gradients of results:
 *
 *     dg = A3' [ sum over tiles of (G2 dY G2') * (B' d B) ] A3
 *
 * F(2x2, 2x2) makes them of a 2 x 2 convolution from a tile of 3 x 3 inputs by 9 products instead of 16, with additions
 * alone. A transformed tile has 16 or 9 elements, each a vector of channels, `step` words apart.
 *
 * Planes and weights are float or bfloat16. Words have 32 bits, one float or two adjacent depths of a product in
 * bfloat16, the first in the low half; transforms and sums are computed in float. */
#ifndef ZT_OPS_CPU_WINOGRAD_SIMD_WINOGRAD_H
#define ZT_OPS_CPU_WINOGRAD_SIMD_WINOGRAD_H

#include "graph/ir/graph.h"

#include <stdbool.h>
#include <stdint.h>

enum zt_winograd_form { ZT_WINOGRAD_3X3, ZT_WINOGRAD_2X2, ZT_WINOGRAD_FORMS };
enum { ZT_WINOGRAD_RESULTS = 2, ZT_WINOGRAD_TAPS = 9, ZT_WINOGRAD_ELEMENTS = 16 }; /* a square's edge; the most */

/* m[r][o] (+)= sum over k of a[r * a_row + k * a_step] b[k * b_step + o], for `rows` rows r and 1 to `panel` vectors o;
 * rows of m are m_row apart; a and b are words. The sum is made first and then added, which rounds less. */
struct zt_winograd_product {
    const float *a, *b;
    float *m;
    int64_t a_row, a_step, b_step, m_row, rows, depth;
    int vectors;
    bool add;
};
/* The part of a tile that lies inside the plane, or of a square of results: rows and columns first..end-1. */
struct zt_winograd_part {
    int first[2], end[2];
};
/* Operations on the 2 x 2 results: + bias (a vector), + added (at the positions of y; NULL, as before a pool: none),
 * then max(, 0) if relu; NaN stays. */
struct zt_winograd_finish {
    const float *bias;
    const void *added;
    int relu;
};

struct zt_winograd_kernels {
    int vector, panel; /* floats; vectors of results that a product makes at once */
    int depths;        /* of a product in a word: 1, or 2 of bfloat16 */
    int taps, square;  /* edges of a kernel and of a tile */
    int elements;      /* of a transformed tile */
    float sum_scale;   /* the sum of dY over element (1, 1) of G2 dY G2' */
    /* G g G' of a vector of kernels of each depth of a word, g[depths][taps^2][vector], to vectors of words. */
    void (*weight)(const float *g, float *u, int64_t step);
    /* B' d B: pixels of the tile lie `pixel` elements apart, rows `row`; 0 outside the part (NULL: all inside). The
     * depths of v are channels: a vector of them is vector / depths words. */
    void (*input)(const void *d, int64_t row, int64_t pixel, const struct zt_winograd_part *part, float *v,
                  int64_t step);
    /* G2 dY G2': as `input`, of 2 x 2 pixels. */
    void (*gradient)(const void *dy, int64_t row, int64_t pixel, const struct zt_winograd_part *part, float *v,
                     int64_t step);
    /* A vector of channels of two tiles, as `input` and `gradient` store them, as a vector of words whose depths are
     * the tiles. NULL: a word has one. */
    void (*pair)(const float *first, const float *second, float *to);
    void (*product)(const struct zt_winograd_product *p);
    /* The results in the order of rows to y + at[0..3]; below 0: not wanted. */
    void (*output)(const float *m, int64_t step, const struct zt_winograd_finish *f, void *y, const int64_t *at);
    /* The maximum of the results, or the first NaN, and its index 0..3. */
    void (*pool)(const float *m, int64_t step, const struct zt_winograd_finish *f, void *p, uint8_t *position);
    /* A3' m A3 of a vector of kernels to g[taps^2][vector]. */
    void (*kernel)(const float *m, int64_t step, float *g);
};
/* dtype: of the planes. NULL on machines without fused multiply-add, and for bfloat16 without products of it. */
const struct zt_winograd_kernels *zt_winograd_kernels(enum zt_winograd_form form, enum zt_dtype dtype);
/* Those of bfloat16. */
const struct zt_winograd_kernels *zt_winograd_bfloat_kernels(enum zt_winograd_form form);

#endif
