/* Products of small matrices in double, the inner loop of the reference kernels of MatMul, Gemm and the convolutions.
 *
 * A tile is a block of a matrix on the stack, read from any dtype and strides. Big products are cut into tiles whose
 * terms are added in the order of the depth, so the result depends neither on the cutting over rows and columns nor on
 * threads. */
#ifndef ZT_OPS_KERNEL_TILE_H
#define ZT_OPS_KERNEL_TILE_H

#include "graph/ir/dtype.h"

/* 32 KiB of sums, 16 KiB of the left side, 64 KiB of the right side: the right side stays in the second cache. */
enum { ZT_TILE_ROWS = 32, ZT_TILE_DEPTH = 64, ZT_TILE_COLS = 128 };

/* A matrix inside a tensor: element (r, c) lies at offset + r * row + c * col. */
struct zt_matrix {
    enum zt_dtype dtype;
    const void *data;
    int64_t offset, row, col;
};

/* The block of a matrix at rows [row, row + rows) and columns [col, col + cols); at most a tile. */
struct zt_tile {
    int64_t row, col;
    int rows, cols;
};

/* to[r * lead + c] = element (tile.row + r, tile.col + c) of `from`. */
void zt_tile_load(const struct zt_matrix *from, struct zt_tile tile, double *to, int lead);

/* acc[r][c] += sum over d of a[r][d] * b[d][c], for r < rows, d < depth, c < cols. Leading dimensions are ZT_TILE_COLS,
 * ZT_TILE_DEPTH and ZT_TILE_COLS; columns up to the next multiple of four are read and written too (zt_tile_pad). */
void zt_tile_multiply(double *acc, const double *a, const double *b, int rows, int depth, int cols);

/* Zeroes the columns of b that zt_tile_multiply reads beyond cols. */
void zt_tile_pad(double *b, int depth, int cols);

static inline int64_t zt_min_int(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t zt_max_int(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t zt_ceil_div(int64_t a, int64_t b) { /* b > 0 */
    return a / b + (a % b > 0);
}

#endif
