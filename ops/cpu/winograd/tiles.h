/* The tiles of Winograd's filtering: their positions, and the loop that passes them to simd_winograd.h. Tile (r, c) of
 * a sample holds the inputs of the 2 x 2 results from (2 r, 2 c) on. */
#ifndef ZT_OPS_CPU_WINOGRAD_TILES_H
#define ZT_OPS_CPU_WINOGRAD_TILES_H

#include "ops/cpu/winograd/simd_winograd.h"
#include "ops/cpu/blocked_layout.h"

struct zt_winograd_tiles {
    int64_t in[2], pad[2], out[2]; /* rows, columns: of x, before it, of the results */
    int64_t tiles[2], all;         /* of a sample; of the batch */
};

/* A 3 x 3 convolution of one group with stride and dilation 1, and padding of 0 to 2. */
struct zt_winograd_conv {
    int64_t samples, channels, results; /* channels of its input and of its result */
    int64_t in[2], out[2], pad[2];      /* rows, columns: of the input, of the result, before the input */
};

struct zt_winograd_tile {
    int64_t sample, row, column;
};
/* Tile `index` of the batch, 0 to t->all - 1: by sample, then row, then column. */
struct zt_winograd_tile zt_winograd_tile_of(const struct zt_winograd_tiles *t, int64_t index);
/* Advances to the next tile. */
void zt_winograd_next(const struct zt_winograd_tiles *t, struct zt_winograd_tile *tile);

/* Planes whose tiles are transformed. `run`: the kernel's `input` on squares of 4 of x, or its `gradient` on squares of
 * 2 of the results. */
struct zt_winograd_source {
    const struct zt_winograd_tiles *tiles;
    const struct zt_planes *planes;
    const float *data;
    void (*run)(const float *, int64_t, int64_t, const struct zt_winograd_part *, float *, int64_t);
    int square, vector; /* 4 or 2; floats of a vector */
    int64_t size[2];    /* of a plane */
    int64_t pad[2];     /* rows and columns of padding before it */
    int64_t vectors;    /* of channels */
    int64_t pitch;      /* floats from a transformed tile to the next */
};
/* Transforms all channels of `count` tiles from `tile` on: element e of vector g of tile i goes to
 * to[e * step + i * pitch + g * vector]. */
void zt_winograd_transform(const struct zt_winograd_source *s, struct zt_winograd_tile tile, int64_t count, float *to,
                           int64_t step);

/* The layout of planes for the kernels: `given` where it has whole vectors. */
const struct zt_layout *zt_winograd_layout(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                           const struct zt_shape *shape);

/* The share that `work` is of the direct convolution's; 1 where that is hardly less, and the filtering is not used. */
static inline double zt_winograd_share_of(double direct, double work) {
    return work < 0.9 * direct ? work / direct : 1;
}

/* Tiles of a unit of work with so many vectors of channels, whose transforms stay in the second cache. */
int64_t zt_winograd_unit(const struct zt_winograd_kernels *kernels, int64_t vectors);
/* Floats from an element of a unit's tiles to the next, with so many floats from a tile to the next. Adjacent elements
 * are in different sets of the first cache: a tile writes or reads all 16 at once. */
int64_t zt_winograd_step(int64_t unit, int64_t pitch);
/* Floats from a tile of so many vectors of channels to the next: adjacent tiles are in different sets of the first
 * cache. */
int64_t zt_winograd_pitch(const struct zt_winograd_kernels *kernels, int64_t vectors);
enum { ZT_WINOGRAD_SHARE = 8 }; /* tiles that a thread transforms at a time where all are transformed first */

#endif
