/* Vector loops of reductions: rows folded into one row, or one row into a number. Compiled for several instruction
 * sets, chosen by CPUID. */
#ifndef ZT_OPS_REDUCE_SIMD_REDUCE_H
#define ZT_OPS_REDUCE_SIMD_REDUCE_H

#include <stdint.h>

/* FOLD(id, START, JOIN, MERGE, WHOLE). JOIN: the new result from the result a and the term x, both vectors. MERGE: the
 * same for two doubles a and x. WHOLE: the function that joins the partial results of a row. START is neutral, also as
 * a term. A NaN term gives NaN. */
#define ZT_FLOAT_FOLDS(FOLD)                                                                                           \
    FOLD(sum, 0, a + x, a + x, added)                                                                                  \
    FOLD(abs, 0, a + F(absolute)(x), a + x, added)                                                                     \
    FOLD(square, 0, a + x * x, a + x, added)                                                                           \
    FOLD(max, -INFINITY, F(choose)((a > x) | (a != a), a, x), ((a > x) | (a != a)) ? a : x, largest)                   \
    FOLD(min, INFINITY, F(choose)((a < x) | (a != a), a, x), ((a < x) | (a != a)) ? a : x, smallest)
enum zt_row_fold {
#define ZT_FOLD_NAME(id, ...) ZT_FOLD_##id,
    ZT_FLOAT_FOLDS(ZT_FOLD_NAME)
#undef ZT_FOLD_NAME
        ZT_FOLD_product, /* in double */
    ZT_FOLDS
};

/* `columns` results side by side of `rows` rows that lie `step` elements apart: part[c] (total[c] for the product)
 * joined with the terms in the order of the rows. */
struct zt_row_block {
    const float *x;
    int64_t step, rows, columns;
    float *part;
    double *total;
};
typedef void zt_rows_function(const struct zt_row_block *b);
/* One row of n neighbours folded, ZT_ROW_WIDE partial results side by side in float over at most ZT_ROW_SPAN terms
 * each, in double beyond. The same bits on every machine. */
enum { ZT_ROW_WIDE = 64, ZT_ROW_SPAN = 64 };
typedef double zt_row_function(const float *x, int64_t n);
/* By fold; the product has no function of a row. */
zt_rows_function *const *zt_rows_functions(void);
zt_row_function *const *zt_row_functions(void);

/* `columns` results side by side, each of `rows` elements that lie `step` apart: dx = m (dy / sum m), m = [x = y]. The
 * sum is exact up to 2^24 rows. */
struct zt_ties_block {
    const float *x, *y, *dy;
    float *dx;
    int64_t step, rows, columns;
};
struct zt_ties_functions {
    void (*columns)(const struct zt_ties_block *b);
    /* One result whose n elements are neighbours. */
    void (*row)(const float *x, int64_t n, float y, float dy, float *dx);
};
const struct zt_ties_functions *zt_ties_functions(void);

#endif
