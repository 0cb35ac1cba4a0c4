#include "ops/cpu/simd_few_columns.h"

#include "base/align.h"
#include "ops/cpu/simd_few_rows.h"

#include <stddef.h>

enum {
    /* where a is transposed: columns of y, and the least k */
    MOST = 16,
    DEEP = 1024,
    /* where it is not, and each element of y is added up from vectors */
    FEWEST = 2,
    SHORTEST = 16,
};

/* Its a is b, its b is a, and rows of its y follow each other. */
static struct zt_simd_gemm transposed(const struct zt_simd_gemm *g) {
    return (struct zt_simd_gemm){ .count = 1,
                                  .m = g->n,
                                  .n = g->m,
                                  .k = g->k,
                                  .a_row = g->b_col,
                                  .a_col = g->b_row,
                                  .b_row = g->a_col,
                                  .b_col = g->a_row,
                                  .y_row = g->m,
                                  .alpha = g->alpha };
}

bool zt_few_columns_takes(const struct zt_simd_gemm *g) {
    if (g->beside && !zt_few_columns_takes(g->beside))
        return false;
    if (g->y_bfloat || g->m <= g->n)
        return false;
    return g->a_row == 1 ? g->n <= MOST && g->k >= DEEP : g->a_col == 1 && g->n <= FEWEST && g->k >= SHORTEST;
}

static int64_t y_elems(const struct zt_simd_gemm *g) {
    return zt_align_floats(g->m * g->n);
}

int64_t zt_few_columns_elems(const struct zt_simd_gemm *g) {
    const struct zt_simd_gemm t = transposed(g);
    const int64_t own = y_elems(g) + zt_few_rows_elems(&t), beside = g->beside ? zt_few_columns_elems(g->beside) : 0;
    return own > beside ? own : beside;
}

/* y = [y +] [beta bias +] the transposed sums. */
static void give(const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *at, const float *sums) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float x = sums[j * g->m + i], *y = (float *)at->y + i * g->y_row + j;
            if (at->bias)
                x += g->beta * at->bias[i * g->bias_row + j * g->bias_col];
            if (g->add)
                x += *y;
            *y = g->relu && x < 0 ? 0 : x; /* NaN is not below 0 */
        }
}

void zt_few_columns_run(int vector, const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *operands,
                        float *workspace, int threads) {
    const struct zt_simd_gemm t = transposed(g);
    const struct zt_simd_gemm_operands swapped = { .a = operands->b, .b = operands->a, .y = workspace };
    zt_few_rows_run(vector, &t, &swapped, workspace + y_elems(g), threads);
    give(g, operands, workspace);
    if (g->beside)
        zt_few_columns_run(vector, g->beside, operands->beside, workspace, threads);
}
