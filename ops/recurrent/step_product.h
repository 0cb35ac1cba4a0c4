/* The product of a time step, y = [y +] a b, with a matrix b that all steps share and that is packed once. Columns of y
 * are `parts` times `width`, and the depth is `bands` times `depth`: the gates of a cell, so that a thread takes the
 * same hidden units of all of them. Both matrices are packed (simd_gemm.h):
 *
 *     b  [band][slice of ZT_GEMM_DEPTH][part][panel of cols][depth of the slice][cols]
 *     a  [band][slice][panel of rows][depth of the slice][rows]
 *
 * The thread that computes some hidden units of a packs them, and all threads read all of a. Bits depend on `bands` and
 * `depth`, but not on ranges or rows. */
#ifndef ZT_OPS_RECURRENT_STEP_PRODUCT_H
#define ZT_OPS_RECURRENT_STEP_PRODUCT_H

#include "ops/cpu/simd_gemm.h"

#include <stdbool.h>

struct zt_step_product {
    const struct zt_simd_gemm_kernel *kernel;
    int64_t parts, width, bands, depth;
};

/* Columns of every part or depths of every band. `first` is a multiple of the kernel's columns; `end` too, or it is at
 * or past the last. */
struct zt_step_range {
    int64_t first, end;
};

/* Floats of the packed b, and of the packed a with so many rows. Both are to be aligned to 64. */
int64_t zt_step_product_b(const struct zt_step_product *p);
int64_t zt_step_product_a(const struct zt_step_product *p, int64_t rows);

/* Packs b, whose element (k, n) is from[k * row + n * col]. */
void zt_step_product_pack_b(const struct zt_step_product *p, const float *from, int64_t row, int64_t col, float *to,
                            int threads);

/* Rows of a matrix, `row` apart. */
struct zt_step_rows {
    float *at;
    int64_t rows, row;
};
/* Packs a range of the depth of a. */
void zt_step_product_pack_a(const struct zt_step_product *p, struct zt_step_rows a, struct zt_step_range depth,
                            float *to);
/* Computes a range of the columns of y from packed a and b; add: y += the result. */
void zt_step_product_run(const struct zt_step_product *p, const float *a, const float *b, struct zt_step_rows y,
                         struct zt_step_range columns, bool add);

#endif
