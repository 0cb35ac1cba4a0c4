/* The vector loops of elementwise_cpu.c, compiled for several instruction sets and chosen by CPUID. */
#ifndef ZT_OPS_ELEMENTWISE_SIMD_ELEMENTWISE_H
#define ZT_OPS_ELEMENTWISE_SIMD_ELEMENTWISE_H

#include "graph/ir/dtype.h"
#include "ops/elementwise/loops.h"

#include <stdint.h>

/* y[i] = f(a[i * a_step], b[i * b_step]), i < n; steps are 0 or 1, b is read by ops of two inputs only. u, v:
 * attributes. */
struct zt_simd_span {
    const float *a, *b;
    float *y;
    int64_t n;
    int a_step, b_step;
    float u, v;
};
typedef void zt_simd_function(const struct zt_simd_span *s);

/* Elements of a half type, bool or an integer of 8 or 16 bits as floats and back; integers are only read. To half types
 * they are rounded to even; bool is 1 for what is not 0. */
void zt_simd_load(enum zt_dtype dtype, const void *from, int64_t n, float *to);
void zt_simd_store(enum zt_dtype dtype, const float *from, int64_t n, void *to);

/* The loops for this machine, by op. */
zt_simd_function *const *zt_simd_functions(void);

#endif
