#include "ops/attention/simd_attention.h"
#include "ops/cpu/isa.h"

#include <math.h>
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

#define VECTOR        16
#define TARGET        __attribute__((target("avx512f")))
#define NAME(id)      id##_16
#define FMA(a, b, c)  ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define BIGGER(a, b)  ((FLOATS)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SMALLER(a, b) ((FLOATS)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define POWER(x, k)   ((FLOATS)_mm512_scalef_ps((__m512)(x), (__m512)(k)))
#include "ops/attention/simd_attention.inc"
#undef POWER

#define VECTOR        8
#define TARGET        __attribute__((target("avx2,fma")))
#define NAME(id)      id##_8
#define FMA(a, b, c)  ((FLOATS)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define BIGGER(a, b)  ((FLOATS)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLER(a, b) ((FLOATS)_mm256_min_ps((__m256)(a), (__m256)(b)))
#include "ops/attention/simd_attention.inc"

const struct zt_attention_kernels *zt_attention_kernels(int cols) {
    if (cols == kernels_16.cols && zt_isa_has(ZT_ISA_AVX512))
        return &kernels_16;
    if (cols == kernels_8.cols && zt_isa_has(ZT_ISA_AVX2))
        return &kernels_8;
    return NULL;
}

#else

const struct zt_attention_kernels *zt_attention_kernels(int cols) {
    (void)cols;
    return NULL;
}

#endif
