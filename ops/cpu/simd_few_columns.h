/* Products of float with few columns of y: gradients of the weights of a layer of few inputs, and layers of one or two
 * results. Vectors of columns would be mostly empty, and a packed for little use. The transposed product has few rows
 * (simd_few_rows.h); what it makes is much less than a and is transposed back. Bits of an element of y depend on k and
 * the order of a alone. */
#ifndef ZT_OPS_CPU_SIMD_FEW_COLUMNS_H
#define ZT_OPS_CPU_SIMD_FEW_COLUMNS_H

#include "ops/cpu/simd_gemm.h"

#include <stdbool.h>

/* Whether a product, and that beside it, is such a one: y of float and of up to 16 columns where a is transposed, or of
 * up to 2. */
bool zt_few_columns_takes(const struct zt_simd_gemm *g);
/* Floats of the workspace, which is aligned to 64. */
int64_t zt_few_columns_elems(const struct zt_simd_gemm *g);
/* Runs the product, and that beside it, with vectors of 8 or 16 floats. */
void zt_few_columns_run(int vector, const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *operands,
                        float *workspace, int threads);

#endif
