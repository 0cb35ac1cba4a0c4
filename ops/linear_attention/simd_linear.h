/* Vector loops of LinearAttention (formulas in linear_attention.c) on ZT_LINEAR_COLUMNS columns of a state: a matrix
 * [size][ZT_LINEAR_COLUMNS] of floats. A vector of a number a row has `size` floats, one of a number a column
 * ZT_LINEAR_COLUMNS. Compiled for several instruction sets. */
#ifndef ZT_OPS_LINEAR_ATTENTION_SIMD_LINEAR_H
#define ZT_OPS_LINEAR_ATTENTION_SIMD_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

/* A step: vectors of a number a row. e NULL: no decay. */
struct zt_simd_linear_step {
    int64_t size;
    const float *k, *e;
};
/* A step back. dv NULL: the rule has no delta. dg NULL: not wanted; then the state may be NULL where dv is. */
struct zt_simd_linear_back {
    struct zt_simd_linear_step step;
    const float *s;      /* the state before the step */
    const float *u, *dv; /* a number a column */
    float *d;            /* gradient of the state: after the step on entry, before it on exit */
    float *dk, *dg;      /* a number a row, added to */
};

struct zt_simd_linear {
    /* y = factor S^T (x e); e NULL: x */
    void (*read)(int64_t size, const float *s, const float *x, const float *e, float factor, float *y);
    /* next = e S + k u^T; next may be S */
    void (*advance)(const struct zt_simd_linear_step *step, const float *u, const float *s, float *next);
    /* S += factor x y^T */
    void (*add_outer)(int64_t size, const float *x, const float *y, float factor, float *s);
    /* x += factor S y */
    void (*project)(int64_t size, const float *s, const float *y, float factor, float *x);
    void (*back)(const struct zt_simd_linear_back *b);
    /* y = exp x, of any count */
    void (*exponentials)(int64_t count, const float *x, float *y);
};
/* The loops for the widest vectors of this machine. */
const struct zt_simd_linear *zt_simd_linear(void);

#endif
