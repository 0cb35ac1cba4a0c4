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
/* Adjacent tiles of a plane, or squares of results, `tiles` many: of a square's rows the first pixels, from which
 * adjacent ones lie `pixel` bytes apart, and adjacent tiles two pixels. Pixels first..end-1 are inside the plane,
 * others are 0; a row outside of it is one vector of zeros, `inside` 0 and else -1. Two rows at `fetch`, like those of
 * the line, are fetched.
 *
 * The depths of a word are channels, a vector of which is vector / depths words, or `depths` tiles, of which the first
 * is depth `depth` of its words: the later ones are written to words that have the earlier ones, and are 0 until then.
 * Element e of tile i goes to to[(depth + i) / depths * pitch + e * step]. */
struct zt_winograd_line {
    const char *row[4], *fetch[ZT_WINOGRAD_RESULTS];
    int64_t inside[4], pixel, first, end, tiles;
    float *to;
    int64_t pitch, step;
    int depths, depth; /* depths: 1, or those of the kernels */
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
    int depths, bytes; /* of a product in a word: 1, or 2 of bfloat16; of an element of a plane */
    int taps, square;  /* edges of a kernel and of a tile */
    int elements;      /* of a transformed tile */
    float sum_scale;   /* the sum of dY over element (1, 1) of G2 dY G2' */
    /* G g G' of a vector of kernels of each depth of a word, g[depths][taps^2][vector], to vectors of words. */
    void (*weight)(const float *g, float *u, int64_t step);
    /* B' d B of each tile. */
    void (*input)(const struct zt_winograd_line *line);
    /* G2 dY G2' of each 2 x 2 results; the line has all depths. */
    void (*gradient)(const struct zt_winograd_line *line);
    /* A vector of channels of two pixels as a vector of words whose depths are the pixels. NULL: a word has one. */
    void (*pair)(const void *first, const void *second, float *to);
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
