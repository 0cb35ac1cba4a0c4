/* Vector loops of attention between its matrix products, on tiles of scores: a row per key and `cols` columns, one per
 * query, as the product's kernel of the same width writes them (simd_gemm.h). A number per query is an array of `cols`.
 */
#ifndef ZT_OPS_ATTENTION_SIMD_ATTENTION_H
#define ZT_OPS_ATTENTION_SIMD_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

struct zt_score_tile {
    float *score;           /* [keys][cols]: scale q k */
    int count;              /* queries; vectors of columns without one stay what they are */
    const float *bias;      /* [keys][cols]; NULL: none */
    const int32_t *seen[2]; /* query c sees keys seen[0][c] <= key < seen[1][c]; NULL: all */
    int64_t first, keys;    /* of row 0; rows */
    float softcap;          /* 0: none */
};

struct zt_attention_kernels {
    int cols;
    /* Replaces scores by exp(x - max), where x is the capped, biased and masked score. Updates *max and *sum to those
     * of all keys so far (max is 0 where no key is seen). `correct` receives the factors of sums that used the old
     * maximum; returns false where all factors are 1. */
    bool (*exp_scores)(const struct zt_score_tile *t, float *max, float *sum, float *correct);
    /* score = p = exp(x - max) inverse; grad, which holds dp, = dx = p (dp - delta). slope (NULL without softcap) =
     * the factor of dx in the gradient of the score. */
    void (*differentiate)(const struct zt_score_tile *t, const float *max, const float *inverse, const float *delta,
                          float *grad, float *slope);
    /* x[r][c] *= factor[c] */
    void (*scale)(int64_t rows, const float *factor, float *x);
    /* x[i] *= y[i] */
    void (*multiply)(int64_t rows, const float *y, float *x);
    /* sum[c] = sum over r of a[r][c] b[r][c]; dot_pairs: of words that are two bfloat16 */
    void (*dot)(int64_t rows, const float *a, const float *b, float *sum);
    void (*dot_pairs)(int64_t rows, const float *a, const float *b, float *sum);
    /* Whether anything is above -infinity. */
    bool (*any)(int64_t rows, const float *bias);
};

/* For tiles of 16 or 32 columns; NULL where this machine has no fused multiply-add of that width. */
const struct zt_attention_kernels *zt_attention_kernels(int cols);

#endif
