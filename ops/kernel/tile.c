#include "ops/kernel/tile.h"

#include "ops/kernel/element_blocks.h"

#include <string.h>

/* Four doubles at once, in whatever registers the machine has. */
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

void zt_tile_load(const struct zt_matrix *from, struct zt_tile tile, double *to, int lead) {
    const int64_t start = from->offset + tile.row * from->row + tile.col * from->col;
    if (from->col == 1 || from->row != 1) {
        for (int r = 0; r < tile.rows; r++)
            zt_load_block(from->dtype, from->data, start + r * from->row, from->col, tile.cols, to + r * lead);
        return;
    }
    double column[ZT_TILE_COLS]; /* columns are contiguous in memory: read along them */
    for (int c = 0; c < tile.cols; c++) {
        zt_load_block(from->dtype, from->data, start + c * from->col, 1, tile.rows, column);
        for (int r = 0; r < tile.rows; r++)
            to[r * lead + c] = column[r];
    }
}

void zt_tile_pad(double *b, int depth, int cols) {
    for (int d = 0; d < depth; d++)
        for (int c = cols; c % 4; c++)
            b[d * ZT_TILE_COLS + c] = 0;
}

/* A block of 4 x 4 sums stays in registers over the whole depth. */
static void multiply_four_rows(double *acc, const double *a, const double *b, int depth, int cols) {
    for (int c = 0; c < cols; c += 4) {
        four s[4];
        for (int r = 0; r < 4; r++)
            s[r] = *(const four *)(acc + r * ZT_TILE_COLS + c);
        for (int d = 0; d < depth; d++) {
            four right = *(const four *)(b + d * ZT_TILE_COLS + c);
            s[0] += a[d] * right;
            s[1] += a[ZT_TILE_DEPTH + d] * right;
            s[2] += a[2 * ZT_TILE_DEPTH + d] * right;
            s[3] += a[3 * ZT_TILE_DEPTH + d] * right;
        }
        for (int r = 0; r < 4; r++)
            *(four *)(acc + r * ZT_TILE_COLS + c) = s[r];
    }
}

static void multiply_row(double *acc, const double *a, const double *b, int depth, int cols) {
    for (int c = 0; c < cols; c += 4) {
        four s = *(const four *)(acc + c);
        for (int d = 0; d < depth; d++)
            s += a[d] * *(const four *)(b + d * ZT_TILE_COLS + c);
        *(four *)(acc + c) = s;
    }
}

void zt_tile_multiply(double *acc, const double *a, const double *b, int rows, int depth, int cols) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        multiply_four_rows(acc + r * ZT_TILE_COLS, a + r * ZT_TILE_DEPTH, b, depth, cols);
    for (; r < rows; r++)
        multiply_row(acc + r * ZT_TILE_COLS, a + r * ZT_TILE_DEPTH, b, depth, cols);
}
