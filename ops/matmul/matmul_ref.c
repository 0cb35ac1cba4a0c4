/* The reference kernel of matrix products: MatMul, Gemm, and the products inside other operators. */
#include "ops/matmul/matmul.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <string.h>

/* Offsets of batch `index` in a and b. */
static void batch_offsets(const struct zt_matmul *g, int64_t index, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int k = g->batch.rank - 1; k >= 0; k--) {
        int64_t i = index % g->batch.dim[k];
        index /= g->batch.dim[k];
        *a += i * g->a_batch[k];
        *b += i * g->b_batch[k];
    }
}

/* One tile of y: rows [r0, r0 + rows) and columns [c0, c0 + cols) of a batch, summed over the whole depth. */
struct block {
    int64_t batch, r0, c0;
    int rows, cols;
};

static void multiply_floats(const struct zt_product *p, const struct block *t) {
    const struct zt_matmul *g = &p->geometry;
    const enum zt_dtype made = p->y_dtype != ZT_UNDEFINED ? p->y_dtype : p->dtype;
    double acc[ZT_TILE_ROWS * ZT_TILE_COLS], a[ZT_TILE_ROWS * ZT_TILE_DEPTH], b[ZT_TILE_DEPTH * ZT_TILE_COLS];
    struct zt_matrix ma = { p->dtype, p->a, 0, g->a_row, g->a_col }, mb = { p->dtype, p->b, 0, g->b_row, g->b_col };
    batch_offsets(g, t->batch, &ma.offset, &mb.offset);
    memset(acc, 0, sizeof(double) * (size_t)(t->rows * ZT_TILE_COLS));
    for (int64_t k = 0; k < g->k; k += ZT_TILE_DEPTH) {
        int depth = (int)zt_min_int(ZT_TILE_DEPTH, g->k - k);
        zt_tile_load(&ma, (struct zt_tile){ t->r0, k, t->rows, depth }, a, ZT_TILE_DEPTH);
        zt_tile_load(&mb, (struct zt_tile){ k, t->c0, depth, t->cols }, b, ZT_TILE_COLS);
        zt_tile_pad(b, depth, t->cols);
        zt_tile_multiply(acc, a, b, t->rows, depth, t->cols);
    }
    for (int r = 0; r < t->rows; r++) {
        double c[ZT_TILE_COLS], *row = acc + r * ZT_TILE_COLS;
        if (p->c)
            zt_load_block(p->dtype, p->c, (t->r0 + r) * p->c_row + t->c0 * p->c_col, p->c_col, t->cols, c);
        for (int j = 0; j < t->cols; j++)
            row[j] = p->alpha * row[j] + (p->c ? p->beta * c[j] : 0);
        zt_store_block(made, p->y, (t->batch * g->m + t->r0 + r) * g->n + t->c0, 1, t->cols, row);
    }
}

/* Sums are kept unsigned: they wrap, and the low bits are those of the signed sum. */
static void multiply_ints(const struct zt_product *p, const struct block *t) {
    const struct zt_matmul *g = &p->geometry;
    int64_t a0, b0;
    batch_offsets(g, t->batch, &a0, &b0);
    for (int64_t r = t->r0; r < t->r0 + t->rows; r++)
        for (int64_t j = t->c0; j < t->c0 + t->cols; j++) {
            uint64_t sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += (uint64_t)zt_load_int(p->dtype, p->a, a0 + r * g->a_row + k * g->a_col) *
                       (uint64_t)zt_load_int(p->dtype, p->b, b0 + k * g->b_row + j * g->b_col);
            int64_t c = p->c ? zt_load_int(p->dtype, p->c, r * p->c_row + j * p->c_col) : 0;
            int64_t at = (t->batch * g->m + r) * g->n + j;
            if (p->alpha == 1 && p->beta == 1)
                zt_store_int(p->dtype, p->y, at, (int64_t)(sum + (uint64_t)c));
            else
                zt_store_double(p->dtype, p->y, at, p->alpha * (double)(int64_t)sum + p->beta * (double)c);
        }
}

struct blocks {
    const struct zt_product *product;
    int64_t down, across; /* blocks of a matrix */
};

static void run_block(void *arg, int64_t i) {
    const struct blocks *b = arg;
    const struct zt_matmul *g = &b->product->geometry;
    struct block t = { .batch = i / (b->down * b->across),
                       .r0 = i / b->across % b->down * ZT_TILE_ROWS,
                       .c0 = i % b->across * ZT_TILE_COLS };
    t.rows = (int)zt_min_int(ZT_TILE_ROWS, g->m - t.r0);
    t.cols = (int)zt_min_int(ZT_TILE_COLS, g->n - t.c0);
    (zt_dtype_in(b->product->dtype, ZT_ANY_INT) ? multiply_ints : multiply_floats)(b->product, &t);
}

void zt_product_run(const struct zt_product *p) {
    const struct zt_matmul *g = &p->geometry;
    struct blocks b = { p, zt_ceil_div(g->m, ZT_TILE_ROWS), zt_ceil_div(g->n, ZT_TILE_COLS) };
    int64_t count = zt_shape_count(&g->batch) * b.down * b.across;
    double work = (double)count * ZT_TILE_ROWS * ZT_TILE_COLS * (double)g->k;
    zt_parallel_for(zt_threads_worth(p->threads, work), count, run_block, &b);
}
