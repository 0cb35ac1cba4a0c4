/* Rows folded one under the other, the vector loops of reduce_cpu.c: compiled for several instruction sets, chosen by
 * CPUID. */
#ifndef ZT_OPS_REDUCE_LANES_H
#define ZT_OPS_REDUCE_LANES_H

#include <stdint.h>

/* FOLD(id, START, JOIN): what terms become, of vectors: a the result so far, x the term. NaN wins. */
#define ZT_FLOAT_FOLDS(FOLD)                                                                                           \
    FOLD(sum, 0, a + x)                                                                                                \
    FOLD(abs, 0, a + F(absolute)(x))                                                                                   \
    FOLD(square, 0, a + x * x)                                                                                         \
    FOLD(max, -INFINITY, F(choose)((a > x) | (a != a), a, x))                                                          \
    FOLD(min, INFINITY, F(choose)((a < x) | (a != a), a, x))
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
/* By fold. */
zt_rows_function *const *zt_rows_functions(void);

#endif
