/* Products of float with few rows of y, of a matrix b that lies far away: it is read once, so that memory takes the
 * time and not the products. b is read in the order in which it lies there and is not packed:
 *
 *     b_col 1   DEPTHS rows of b at a time are added to a block of columns of y, which stays in the first cache
 *     b_row 1   the columns of b, whose elements are adjacent, times the rows of a: sums along vectors
 *
 * Few columns of y, as gradients of the weights of a layer of few inputs have and layers of one or two results, are the
 * few rows of the transposed product, whose y is transposed back.
 *
 * Bits of an element of y depend on k and the order of b alone, of few columns on that of a. */
#ifndef ZT_OPS_CPU_SIMD_FEW_ROWS_H
#define ZT_OPS_CPU_SIMD_FEW_ROWS_H

#include "ops/cpu/simd_gemm.h"

#include <stdbool.h>

/* Whether a product, and that beside it, is such a one and faster so: y of float, of up to 16 rows (8 where b_row is
 * 1), or of up to 16 columns where a is transposed, else 2. */
bool zt_few_rows_takes(const struct zt_simd_gemm *g);
/* Floats of the workspace, which is aligned to 64. */
int64_t zt_few_rows_elems(const struct zt_simd_gemm *g);
/* Runs the product, and that beside it, with vectors of 8 or 16 floats. */
void zt_few_rows_run(int vector, const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *operands,
                     float *workspace, int threads);

#endif
