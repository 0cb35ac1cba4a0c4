/* Vector loops of the losses: class losses on a bundle of axis slices, a slice of classes per sample
 * (ops/cpu/simd_rows.h), and element losses on a row of elements. */
#ifndef ZT_OPS_LOSS_SIMD_LOSS_H
#define ZT_OPS_LOSS_SIMD_LOSS_H

#include "ops/cpu/simd_rows.h"

/* dx[c] = p exp(x[c] - lse) - spread w[c]. p, lse and spread: a number per slice; w: one per class, NULL: all 1. Where
 * p is 0, the first term is 0. */
struct zt_cross_grad {
    const float *p, *lse, *spread, *weight;
};

/* Sum of f(x, t), or dx = factor f'(x, t), over n elements. */
struct zt_term {
    enum zt_dtype dtype; /* of x and dx */
    int64_t n;
    const float *target;
    float bend; /* where the smooth and Huber losses turn from square to linear */
};
enum zt_term_kind { ZT_SQUARED, ZT_ABSOLUTE, ZT_SMOOTH, ZT_HUBER, ZT_BINARY, ZT_TERMS };

struct zt_loss_kernels {
    int vector; /* floats of a vector */
    /* The maximum of the numbers of a slice, and sum exp(x - max), which is NaN where the slice holds a NaN. */
    void (*exp_sum)(const struct zt_bundle *b, const void *x, float *max, float *sum);
    /* The same of one slice (bundles with `across`), and its terms exp(x - max), whole vectors of them. */
    void (*exp_keep)(const struct zt_bundle *b, const void *x, float *max, float *sum, float *term);
    /* y = x - shift */
    void (*shift)(const struct zt_bundle *b, const void *x, const float *shift, void *y);
    /* Sum of w[c] x[c]; w NULL: all 1. */
    void (*weighted_sum)(const struct zt_bundle *b, const void *x, const float *weight, float *sum);
    void (*cross_grad)(const struct zt_bundle *b, const void *x, const struct zt_cross_grad *g, void *dx);
    /* dx[c] = p term[c] - spread w[c] of one slice; lse is not read. */
    void (*kept_grad)(const struct zt_bundle *b, const float *term, const struct zt_cross_grad *g, void *dx);

    double (*term[ZT_TERMS])(const struct zt_term *t, const void *x);
    void (*term_grad[ZT_TERMS])(const struct zt_term *t, const void *x, float factor, void *dx);
};
/* The kernels of the widest vectors that this machine has, NULL where it has no fused multiply-add. */
const struct zt_loss_kernels *zt_loss_kernels(void);

#endif
