#include "ops/conv/simd/simd_conv.h"
#include "ops/cpu/isa.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define VECTOR       16
#define SEGMENT      14 /* results in flight: two registers each, of 32 */
#define TAPS         8  /* of a single result in flight: two additions a cycle, each of which takes four */
#define TARGET       __attribute__((target("avx512f")))
#define FMA(a, b, c) ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define BROADCAST(x) ((FLOATS)_mm512_set1_ps(x))
#define NAME(id)     id##_16
#include "ops/conv/simd/simd_conv.inc"

zt_simd_conv_run *zt_simd_conv_kernel(int vector) {
    if (vector == 16 && zt_isa_has(ZT_ISA_AVX512))
        return conv_16;
    return NULL;
}

#else

zt_simd_conv_run *zt_simd_conv_kernel(int vector) {
    (void)vector;
    return NULL;
}

#endif
