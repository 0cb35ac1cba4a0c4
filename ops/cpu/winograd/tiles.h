/* The tiles of Winograd's filtering: their positions, and the loop that passes them to simd_winograd.h. Tile (r, c) of
 * a sample holds the inputs of the 2 x 2 results from (2 r, 2 c) on.
 *
 * A 4 x 4 convolution with stride 2 is a sum of four of 2 x 2 with stride 1, its phases: that of even rows and columns
 * of the padded input and of the kernel, of even rows and odd columns, and so on. Its data gradient is four of them
 * beside each other, each of which makes every second row and column. A 3 x 3 kernel is one of 4 x 4 without its last
 * row and column, and elements of a tile to which only these contribute are left out: 25 products of 36.
 *
 * A convolution of 4 x 4 to 6 x 6 with stride 1 is a sum of four, of the parts of its kernel: of 2 x 2 each, or of 3 x
 * 3 each, where a 5 x 5 kernel is one of 6 x 6 without its last row and column: 49 products where it has 100. So is its
 * data gradient. */
#ifndef ZT_OPS_CPU_WINOGRAD_TILES_H
#define ZT_OPS_CPU_WINOGRAD_TILES_H

#include "ops/cpu/winograd/simd_winograd.h"
#include "ops/cpu/blocked_layout.h"

struct zt_winograd_tiles {
    int64_t tiles[2], all; /* of a sample; of the batch */
};

/* A convolution of one group with dilation 1: 3 x 3 to 6 x 6 with stride 1, or 3 x 3 or 4 x 4 with stride 2, and
 * padding below the kernel's size. */
struct zt_winograd_conv {
    int64_t samples, channels, results; /* channels of its input and of its result */
    int64_t in[2], out[2], pad[2];      /* rows, columns: of the input, of the result, before the input */
    int stride, kernel;                 /* kernel: its edge */
    enum zt_dtype dtype;                /* of planes and weights: float, bfloat16 */
};
/* The kernels of its phases or parts; NULL on machines without fused multiply-add, or without products of dtype. */
const struct zt_winograd_kernels *zt_winograd_kernels_of(const struct zt_winograd_conv *c);
/* Phases, or parts of the kernel. */
static inline int zt_winograd_phases(const struct zt_winograd_conv *c) {
    return c->stride > 1 || c->kernel > 3 ? 4 : 1;
}

/* Rows, columns: of the first pixel of tile (0, 0) in the plane that is transformed; of its first result in the plane
 * of results. */
struct zt_winograd_phase {
    int64_t origin[2], result[2];
    int64_t tap[ZT_WINOGRAD_TAPS];   /* of the phase's kernel in that of the convolution; -1: none, a weight of 0 */
    bool used[ZT_WINOGRAD_ELEMENTS]; /* elements of a transformed tile whose weights are not all 0 */
    int used_count;
};
/* backward: of the data gradient, which reads dy. */
struct zt_winograd_phase zt_winograd_phase_of(const struct zt_winograd_conv *c, bool backward, int phase);

struct zt_winograd_tile {
    int64_t sample, row, column;
};
/* Tile `index` of the batch, 0 to t->all - 1: by sample, then row, then column. */
struct zt_winograd_tile zt_winograd_tile_of(const struct zt_winograd_tiles *t, int64_t index);
/* Advances to the next tile. */
void zt_winograd_next(const struct zt_winograd_tiles *t, struct zt_winograd_tile *tile);

/* Planes whose tiles are transformed. `run`: the kernel's `input` on tiles of x, or its `gradient` on squares of 2 of
 * the results. */
struct zt_winograd_source {
    const struct zt_winograd_tiles *tiles;
    const struct zt_winograd_kernels *kernels;
    const struct zt_planes *planes;
    const void *data;
    void (*run)(const struct zt_winograd_line *line);
    int square;        /* the tile's edge */
    int depths;        /* of a word that are tiles, as in struct zt_winograd_line */
    int64_t size[2];   /* of a plane */
    int64_t origin[2]; /* of tile (0, 0): below 0 in the padding */
    int stride;        /* from a pixel of a tile to the next */
    int64_t vectors;   /* of channels */
    int64_t pitch;     /* words from a transformed tile, or tiles of the same words, to the next */
};
/* Transforms all channels of `count` tiles from `tile` on: element e of vector g of tile i goes to
 * to[e * step + i / depths * pitch + g * words] for a vector of `words` words. */
void zt_winograd_transform(const struct zt_winograd_source *s, struct zt_winograd_tile tile, int64_t count, float *to,
                           int64_t step);

/* The layout of planes for the kernels: `given` where it has whole vectors. */
const struct zt_layout *zt_winograd_layout(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                           const struct zt_shape *shape);

/* The share that `work` is of the direct convolution's; 1 where that is hardly less, and the filtering is not used. */
static inline double zt_winograd_share_of(double direct, double work) {
    return work < 0.9 * direct ? work / direct : 1;
}

/* Tiles of a unit of work with so many words an element of a tile, whose transforms stay in the second cache. */
int64_t zt_winograd_unit(const struct zt_winograd_kernels *kernels, int64_t words);
/* Words from an element of a unit's tiles to the next, with so many words from a tile to the next. Adjacent elements
 * are in different sets of the first cache: a tile writes or reads all at once. */
int64_t zt_winograd_step(int64_t unit, int64_t pitch);
/* Words from a tile of so many to the next: adjacent tiles are in different sets of the first cache. */
int64_t zt_winograd_pitch(int64_t words);
enum { ZT_WINOGRAD_SHARE = 8 }; /* tiles that a thread transforms at a time where all are transformed first */

#endif
