/* Vector loops of the normalisations: on a bundle of axis slices (ops/cpu/simd_rows.h), and on a row of neighbouring
 * elements. */
#ifndef ZT_OPS_NORM_SIMD_NORM_H
#define ZT_OPS_NORM_SIMD_NORM_H

#include "ops/cpu/simd_rows.h"

/* y = (x - mean) of_x + constant, or dx = that + of_dy dy. Each is a number per slice. */
struct zt_row_map {
    const float *mean, *of_x, *constant, *of_dy;
};

/* Sums of dy and of dy (x - mean), a number per slice each. */
struct zt_row_sums {
    const float *mean;
    float *dy, *dyx;
};

/* y[c] = x[c] s[c]^-beta, s[c] = bias + alpha sum of x[j]^2, j from c - before to c + after. */
struct zt_response {
    int64_t before, after;
    float alpha, beta, bias;
    float *room; /* gradient: two vectors per channel */
};

/* A row, or a part of it, of `n` neighbours: xh = (x - mean) inv - rest. Entries of scale and bias are each_scale or
 * each_bias (0 or 1) apart; bias may be NULL. */
struct zt_row {
    enum zt_dtype dtype; /* of x, y, dy, dx */
    int64_t n;
    float mean, inv, rest;
    const float *scale, *bias;
    int each_scale, each_bias;
};

/* dx = inv dy scale + shift + slope xh; dscale += dy xh, dbias += dy (arrays of n, both or neither NULL). */
struct zt_row_grad {
    const void *dy, *x;
    float shift, slope;
    void *dx;
    float *dscale, *dbias;
};

struct zt_norm_kernels {
    int vector; /* floats of a vector */
    /* The mean of a slice, and the sum of squares around the mean. */
    void (*moments)(const struct zt_bundle *b, const void *x, float *mean, float *squares);
    void (*products)(const struct zt_bundle *b, const void *dy, const void *x, const struct zt_row_sums *to);
    void (*affine)(const struct zt_bundle *b, const void *x, const struct zt_row_map *map, void *y);
    void (*affine_grad)(const struct zt_bundle *b, const void *dy, const void *x, const struct zt_row_map *map,
                        void *dx);

    /* For slices side by side. */
    void (*respond)(const struct zt_bundle *b, const void *x, const struct zt_response *r, void *y);
    void (*respond_grad)(const struct zt_bundle *b, const void *dy, const void *x, const struct zt_response *r,
                         void *dx);

    double (*row_sum)(enum zt_dtype dtype, int64_t n, const void *x);
    /* Sums of x - shift and of its squares. */
    void (*row_moments)(enum zt_dtype dtype, int64_t n, const void *x, float shift, double *sum, double *squares);
    /* y = xh scale + bias */
    void (*normalise)(const struct zt_row *r, const void *x, void *y);
    /* Sums of dy scale and of dy scale xh. */
    void (*grad_sums)(const struct zt_row *r, const void *dy, const void *x, double *sum, double *product);
    void (*normalise_grad)(const struct zt_row *r, const struct zt_row_grad *to);
};
/* The kernels of the widest vectors that this machine has, NULL where it has no fused multiply-add. */
const struct zt_norm_kernels *zt_norm_kernels(void);

#endif
