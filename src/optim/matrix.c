#include "optim/matrix.h"

#include "optim/optim.h"

#include <math.h>

/* The sum of at most ZT_MATRIX_DEPTH products of row i of a and column j of b, from `first` on. */
static float sum_of(const struct zt_matrix_product *p, int64_t i, int64_t j, int64_t first) {
    int64_t end = first + ZT_MATRIX_DEPTH < p->k ? first + ZT_MATRIX_DEPTH : p->k;
    float sum = 0;
    for (int64_t k = first; k < end; k++)
        sum = fmaf(p->a[i * p->a_row + k * p->a_col], p->b[k * p->b_row + j * p->b_col], sum);
    return sum;
}

static void multiply(const struct zt_matrix_ops *ops, const struct zt_matrix_product *p) {
    (void)ops;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float y = p->alpha * sum_of(p, i, j, 0);
            if (p->c)
                y += p->beta * p->c[i * p->n + j];
            for (int64_t k = ZT_MATRIX_DEPTH; k < p->k; k += ZT_MATRIX_DEPTH)
                y += p->alpha * sum_of(p, i, j, k);
            p->y[i * p->n + j] = y;
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

const struct zt_matrix_ops zt_matrix_plain = { .multiply = multiply,
                                               .add_diagonal = add_diagonal,
                                               .normalise = normalise };
