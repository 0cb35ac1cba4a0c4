#include "ops/cpu/simd_gemm.h"
#include "ops/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

/* Sums are registers, not an array: the loops over them must unroll at every optimisation level. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#define VECTOR       16
#define ROWS         12 /* 24 registers of 32 hold sums */
#define TARGET       __attribute__((target("avx512f")))
#define FMA(a, b, c) ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define BROADCAST(x) ((FLOATS)_mm512_set1_ps(x))
#define NAME(id)     id##_16
#include "ops/cpu/simd_gemm.inc"

#define VECTOR       8
#define ROWS         6 /* 12 of 16 */
#define TARGET       __attribute__((target("avx2,fma")))
#define FMA(a, b, c) ((FLOATS)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define BROADCAST(x) ((FLOATS)_mm256_set1_ps(x))
#define NAME(id)     id##_8
#include "ops/cpu/simd_gemm.inc"

const struct zt_simd_gemm_kernel *zt_simd_gemm_kernel(int vector) {
    if (vector == 16 && zt_isa() >= ZT_ISA_AVX512)
        return &kernel_16;
    if (vector == 8 && zt_isa() >= ZT_ISA_AVX2)
        return &kernel_8;
    return NULL;
}

#else

const struct zt_simd_gemm_kernel *zt_simd_gemm_kernel(int vector) {
    (void)vector;
    return NULL;
}

#endif

const struct zt_simd_gemm_kernel *zt_simd_gemm_best(void) {
    const struct zt_simd_gemm_kernel *wide = zt_simd_gemm_kernel(16);
    return wide ? wide : zt_simd_gemm_kernel(8);
}
