/* Our own CPU kernels on lines of numbers, in vectors of 8 or 16 floats: softmax, cross-entropy, element losses, and
 * the normalisations of rows. Tensors are float, bfloat16 or float16; everything is computed in float, sums of more
 * than some hundred terms in parts. Results depend on the line alone. */
#ifndef ZT_OPS_CPU_SIMD_ROWS_H
#define ZT_OPS_CPU_SIMD_ROWS_H

#include "ops/kernel/axis_slices.h"

/* What one call works on, `count` vectors `step` elements apart:
 *
 *     across     one line, whose neighbours fill the lanes; of the last vector only `last` are in use
 *     else       up to as many lines as there are lanes, side by side; lane i of every vector is line i
 *
 * Numbers a line (max, sum ...) are one float, or a float each lane. */
struct zt_bundle {
    enum zt_dtype dtype; /* of the tensors of a line */
    bool across;
    int64_t count, step;
    int lanes, last; /* in use, of all vectors but the last, and of the last */
};

/* dx[c] = p exp(x[c] - lse) - spread w[c]; p, lse, spread: numbers a line; w one a class, NULL: all 1. Where p is 0 the
 * first term is. */
struct zt_cross_grad {
    const float *p, *lse, *spread, *weight;
};

/* y = (x - mean) of_x + constant, or dx = that + of_dy dy; numbers a line. */
struct zt_row_map {
    const float *mean, *of_x, *constant, *of_dy;
};

/* y[c] = x[c] s[c]^-beta, s[c] = bias + alpha sum of x[j]^2, j from c - before to c + after */
struct zt_response {
    int64_t before, after;
    float alpha, beta, bias;
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

/* sum of f(x, t), or dx = factor f'(x, t), for n elements */
struct zt_term {
    enum zt_dtype dtype; /* of x and dx */
    int64_t n;
    const float *target;
    float bend;
};
enum zt_term_kind { ZT_SQUARED, ZT_ABSOLUTE, ZT_SMOOTH, ZT_HUBER, ZT_BINARY, ZT_TERMS };

struct zt_row_kernels {
    int lanes;
    void (*softmax)(const struct zt_bundle *b, const void *x, void *y);
    void (*log_softmax)(const struct zt_bundle *b, const void *x, void *y);
    void (*softmax_grad)(const struct zt_bundle *b, const void *dy, const void *y, void *dx);
    void (*log_softmax_grad)(const struct zt_bundle *b, const void *dy, const void *y, void *dx);
    /* The maximum that is a number, and sum exp(x - max): NaN where there is a NaN. */
    void (*exp_sum)(const struct zt_bundle *b, const void *x, float *max, float *sum);
    /* y = x - shift */
    void (*shift)(const struct zt_bundle *b, const void *x, const float *shift, void *y);
    /* sum of w[c] x[c]; w NULL: 1 */
    void (*weigh)(const struct zt_bundle *b, const void *x, const float *weight, float *sum);
    void (*cross_grad)(const struct zt_bundle *b, const void *x, const struct zt_cross_grad *g, void *dx);

    /* The mean of a line, and the sum of squares around it. */
    void (*moments)(const struct zt_bundle *b, const void *x, float *mean, float *squares);
    /* Sums of dy and of dy (x - mean). */
    void (*products)(const struct zt_bundle *b, const void *dy, const void *x, const float *mean, float *sum_dy,
                     float *sum_dyx);
    void (*affine)(const struct zt_bundle *b, const void *x, const struct zt_row_map *map, void *y);
    void (*affine_grad)(const struct zt_bundle *b, const void *dy, const void *x, const struct zt_row_map *map,
                        void *dx);

    /* Of lines side by side; `room`: two vectors a channel. */
    void (*respond)(const struct zt_bundle *b, const void *x, const struct zt_response *r, void *y);
    void (*respond_grad)(const struct zt_bundle *b, const void *dy, const void *x, const struct zt_response *r,
                         float *room, void *dx);

    double (*row_sum)(enum zt_dtype dtype, int64_t n, const void *x);
    /* Sums of x - shift and of its squares. */
    void (*row_moments)(enum zt_dtype dtype, int64_t n, const void *x, float shift, double *sum, double *squares);
    /* y = xh scale + bias */
    void (*normalise)(const struct zt_row *r, const void *x, void *y);
    /* Sums of dy scale and of dy scale xh. */
    void (*grad_sums)(const struct zt_row *r, const void *dy, const void *x, double *sum, double *product);
    /* dx = inv dy scale + shift + slope xh; dscale += dy xh, dbias += dy (arrays of n, both or neither NULL) */
    void (*normalise_grad)(const struct zt_row *r, const void *dy, const void *x, float shift, float slope, void *dx,
                           float *dscale, float *dbias);

    double (*term[ZT_TERMS])(const struct zt_term *t, const void *x);
    void (*term_grad[ZT_TERMS])(const struct zt_term *t, const void *x, float factor, void *dx);
};

/* The widest of this machine, NULL where it has no fused multiply-add. */
const struct zt_row_kernels *zt_row_kernels(void);
/* Whether they take tensors of this type. */
bool zt_row_type(enum zt_dtype dtype);

/* How lines are cut: bundles of a tensor, and chunks of bundles for threads. */
struct zt_bundles {
    struct zt_axis_slices lines;
    int64_t blocks;               /* bundles side by side: 1 where inner is 1 */
    int64_t count;                /* bundles */
    int64_t grain;                /* bundles a chunk */
    struct zt_bundle whole, edge; /* edge: the last of a block */
};
struct zt_bundles zt_bundles_of(const struct zt_axis_slices *lines, enum zt_dtype dtype, int lanes);
/* Bundle i, and where it starts: element of the tensor, and number of its first line. */
struct zt_bundle zt_bundle_at(const struct zt_bundles *all, int64_t i, int64_t *start, int64_t *line);
/* one(with, bundle, start, line) for every bundle, a chunk of them at a time on a thread. */
typedef void zt_bundle_function(const void *with, const struct zt_bundle *b, int64_t start, int64_t line);
void zt_bundles_each(const struct zt_bundles *all, int threads, zt_bundle_function *one, const void *with);
static inline int64_t zt_bundle_blocks(const struct zt_bundles *all) {
    return (all->count + all->grain - 1) / all->grain;
}

#endif
