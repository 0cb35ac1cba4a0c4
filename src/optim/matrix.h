/* Tensors that an optimizer updates as whole matrices (Muon), and what it asks of the memory that they are in.
 *
 * The optimizer states its iteration in three operations on row-major matrices of floats without gaps. The host, a
 * device and the tests each bring an implementation; zt_matrix_plain defines the results. */
#ifndef ZT_OPTIM_MATRIX_H
#define ZT_OPTIM_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zt_matrix {
    int64_t rows, columns; /* the first axis, and all others; rows 0: a tensor that is updated element by element */
    bool inputs_first; /* the weight of a MatMul, [inputs, outputs]; false: [outputs, inputs], as PyTorch stores it */
};

/* y = alpha a b + beta c with y and c [m, n]. Rounding: ZT_MATRIX_DEPTH products are summed by fused multiply-adds; y
 * is alpha times the first sum plus beta c, and the other sums times alpha are added to it in order. */
enum { ZT_MATRIX_DEPTH = 256 };
struct zt_matrix_product {
    int64_t m, n, k;
    const float *a, *b, *c;             /* c NULL: none; y is none of them */
    int64_t a_row, a_col, b_row, b_col; /* steps in elements */
    float *y;
    float alpha, beta;
};

struct zt_matrix_ops {
    void (*multiply)(const struct zt_matrix_ops *ops, const struct zt_matrix_product *p);
    /* x[i][i] += value of an n x n matrix */
    void (*add_diagonal)(const struct zt_matrix_ops *ops, float *x, int64_t n, float value);
    /* x = x / (|x| + eps), the squares summed in fp64; `scratch`: the memory of a matrix of that size */
    void (*normalise)(const struct zt_matrix_ops *ops, float *x, int64_t count, double eps, float *scratch);
    void *with; /* of the implementation */
};

/* Plain loops of one thread. */
extern const struct zt_matrix_ops zt_matrix_plain;

#ifdef __cplusplus
}
#endif

#endif
