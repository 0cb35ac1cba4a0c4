/* What attention does between its matrix products, on tiles of scores: a row a key, `cols` columns side by side, a
 * query each, as the product's kernel of the same width leaves them (simd_gemm.h). Numbers a query are arrays of
 * `cols`. */
#ifndef ZT_OPS_ATTENTION_SIMD_ATTENTION_H
#define ZT_OPS_ATTENTION_SIMD_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

struct zt_score_tile {
    float *score;           /* [keys][cols]: scale q k */
    const float *bias;      /* the same; NULL: none */
    const int32_t *seen[2]; /* query c sees keys seen[0][c] <= key < seen[1][c]; NULL: all */
    int64_t first, keys;    /* of row 0; rows */
    float softcap;          /* 0: none */
};

struct zt_attention_kernels {
    int cols;
    /* Turns scores into exp(x - max), x being capped, biased and masked score, taking in that max and sum of the keys
     * before may change: *max and *sum become those of all keys so far, and what was weighed with the old maximum is to
     * be multiplied by `correct`. All ones: returns false. Where no key is seen max is 0. */
    bool (*exp_scores)(const struct zt_score_tile *t, float *max, float *sum, float *correct);
    /* score = p = exp(x - max) inverse; grad, which holds dp, = dx = p (dp - delta). slope (NULL without softcap) =
     * what dx is to be multiplied with for the gradient of the score. */
    void (*differentiate)(const struct zt_score_tile *t, const float *max, const float *inverse, const float *delta,
                          float *grad, float *slope);
    /* x[r][c] *= factor[c] */
    void (*scale)(int64_t rows, const float *factor, float *x);
    /* x[i] *= y[i] */
    void (*multiply)(int64_t rows, const float *y, float *x);
    /* sum[c] = sum over r of a[r][c] b[r][c] */
    void (*dot)(int64_t rows, const float *a, const float *b, float *sum);
    /* Whether anything is above -infinity. */
    bool (*any)(int64_t rows, const float *bias);
};

/* For tiles of 16 or 32 columns; NULL where this machine has no fused multiply-add of that width. */
const struct zt_attention_kernels *zt_attention_kernels(int cols);

#endif
