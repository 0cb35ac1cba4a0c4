#include "optim/matrix.h"

#include "base/clones.h"
#include "optim/optim.h"

#include <math.h>

enum { COLUMNS = 16 }; /* that are summed side by side */

/* The sums of at most ZT_MATRIX_DEPTH products, from `first` on, of row i of a and columns j to j + count of b. */
static inline void sum_products(const struct zt_matrix_product *p, int64_t i, int64_t j, int64_t count, int64_t first,
                                float *sum) {
    const int64_t end = first + ZT_MATRIX_DEPTH < p->k ? first + ZT_MATRIX_DEPTH : p->k;
    for (int64_t e = 0; e < count; e++)
        sum[e] = 0;
    for (int64_t k = first; k < end; k++)
        for (int64_t e = 0; e < count; e++)
            sum[e] = fmaf(p->a[i * p->a_row + k * p->a_col], p->b[k * p->b_row + (j + e) * p->b_col], sum[e]);
}

ZT_FMA_CLONES static void plain_multiply(const struct zt_matrix_ops *ops, const struct zt_matrix_product *p) {
    (void)ops;
    for (int64_t at = 0, count; at < p->m * p->n; at += count) {
        const int64_t i = at / p->n, j = at % p->n, left = p->n - j;
        count = left < COLUMNS ? left : COLUMNS;
        float sum[COLUMNS], *y = p->y + at;
        sum_products(p, i, j, count, 0, sum);
        for (int64_t e = 0; e < count; e++) {
            y[e] = p->alpha * sum[e];
            if (p->c)
                y[e] += p->beta * p->c[at + e];
        }
        for (int64_t k = ZT_MATRIX_DEPTH; k < p->k; k += ZT_MATRIX_DEPTH) {
            sum_products(p, i, j, count, k, sum);
            for (int64_t e = 0; e < count; e++)
                y[e] += p->alpha * sum[e];
        }
    }
}

static void add_diagonal(const struct zt_matrix_ops *ops, float *x, int64_t n, float value) {
    (void)ops;
    for (int64_t i = 0; i < n; i++)
        x[i * n + i] += value;
}

static void normalise(const struct zt_matrix_ops *ops, float *x, int64_t count, double eps, float *scratch) {
    const float factor = (float)(1 / (sqrt(zt_sum_squares(x, count)) + eps));
    (void)ops, (void)scratch;
    for (int64_t i = 0; i < count; i++)
        x[i] *= factor;
}

const struct zt_matrix_ops zt_matrix_plain = { .multiply = plain_multiply,
                                               .add_diagonal = add_diagonal,
                                               .normalise = normalise };
