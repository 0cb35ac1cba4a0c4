/* Vector loops of CausalConvWithState (formulas in causal_conv.c) on rows of floats. Every array has ZT_CAUSAL_SLACK
 * numbers behind its last one, which are read and written too. Compiled for several instruction sets. */
#ifndef ZT_OPS_LINEAR_ATTENTION_SIMD_CAUSAL_CONV_H
#define ZT_OPS_LINEAR_ATTENTION_SIMD_CAUSAL_CONV_H

#include <stdint.h>

enum { ZT_CAUSAL_SLACK = 16 };

struct zt_simd_causal {
    /* a[t] = bias + sum over j < kernel of w[j] z[t + j], t < count */
    void (*convolve)(int64_t count, int64_t kernel, const float *w, const float *z, float bias, float *a);
    /* a = a sigmoid(a) */
    void (*silu)(int64_t count, float *a);
    /* da *= the slope of silu at a */
    void (*silu_slope)(int64_t count, const float *a, float *da);
    /* The sum of x[i] y[i], i < count. Reads no slack. */
    float (*dot)(int64_t count, const float *x, const float *y);
    /* The same without y. */
    float (*sum)(int64_t count, const float *x);
};
/* The loops for the widest vectors of this machine. */
const struct zt_simd_causal *zt_simd_causal(void);

#endif
