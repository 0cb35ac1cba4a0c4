#include "ops/conv/simd/simd_group.h"
#include "ops/cpu/isa.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* Permutations of four elements, two bits for the source of each: channel k of each element's group, and a rotation by
 * k within each group. */
#define FOUR(a, b, c, d) ((a) | (b) << 2 | (c) << 4 | (d) << 6)
#define BROADCAST_2(k)   FOUR(k, k, 2 + (k), 2 + (k))
#define ROTATE_2(k)      FOUR(k, 1 - (k), 2 + (k), 3 - (k))
#define BROADCAST_4(k)   FOUR(k, k, k, k)
#define ROTATE_4(k)      FOUR(k, ((k) + 1) % 4, ((k) + 2) % 4, ((k) + 3) % 4)

#define VECTOR          8
#define SEGMENT         8
#define TARGET          __attribute__((target("avx2,fma")))
#define FMA(a, b, c)    ((FLOATS)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define PERMUTE(x, how) ((FLOATS)_mm256_permute_ps((__m256)(x), how))
#define BROADCAST(x, k) (x)
#define ROTATE(x, k)    (x)
#define WIDTH           1
#define TAPS            9
#define EACH(DO)        DO(0)
#define NAME(id)        id##_8_1
#include "ops/conv/simd/simd_group.inc"
#define BROADCAST(x, k) PERMUTE(x, BROADCAST_2(k))
#define ROTATE(x, k)    PERMUTE(x, ROTATE_2(k))
#define WIDTH           2
#define TAPS            3
#define EACH(DO)        DO(0) DO(1)
#define NAME(id)        id##_8_2
#include "ops/conv/simd/simd_group.inc"
#define BROADCAST(x, k) PERMUTE(x, BROADCAST_4(k))
#define ROTATE(x, k)    PERMUTE(x, ROTATE_4(k))
#define WIDTH           4
#define TAPS            3
#define EACH(DO)        DO(0) DO(1) DO(2) DO(3)
#define NAME(id)        id##_8_4
#include "ops/conv/simd/simd_group.inc"
#undef VECTOR
#undef SEGMENT
#undef TARGET
#undef FMA
#undef PERMUTE

#define VECTOR          16
#define SEGMENT         14
#define TARGET          __attribute__((target("avx512f")))
#define FMA(a, b, c)    ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define PERMUTE(x, how) ((FLOATS)_mm512_permute_ps((__m512)(x), how))
#define BROADCAST(x, k) (x)
#define ROTATE(x, k)    (x)
#define WIDTH           1
#define TAPS            9
#define EACH(DO)        DO(0)
#define NAME(id)        id##_16_1
#include "ops/conv/simd/simd_group.inc"
#define BROADCAST(x, k) PERMUTE(x, BROADCAST_2(k))
#define ROTATE(x, k)    PERMUTE(x, ROTATE_2(k))
#define WIDTH           2
#define TAPS            3
#define EACH(DO)        DO(0) DO(1)
#define NAME(id)        id##_16_2
#include "ops/conv/simd/simd_group.inc"
#define BROADCAST(x, k) PERMUTE(x, BROADCAST_4(k))
#define ROTATE(x, k)    PERMUTE(x, ROTATE_4(k))
#define WIDTH           4
#define TAPS            3
#define EACH(DO)        DO(0) DO(1) DO(2) DO(3)
#define NAME(id)        id##_16_4
#include "ops/conv/simd/simd_group.inc"
/* Groups of eight channels are wider than four elements: the permutation has an index for each element. */
#define PERMUTE_8(x, a, b, c, d, e, f, g, h)                                                                           \
    ((FLOATS)_mm512_permutexvar_ps(                                                                                    \
        _mm512_setr_epi32(a, b, c, d, e, f, g, h, 8 + a, 8 + b, 8 + c, 8 + d, 8 + e, 8 + f, 8 + g, 8 + h),             \
        (__m512)(x)))
#define BROADCAST(x, k) PERMUTE_8(x, k, k, k, k, k, k, k, k)
#define ROTATE(x, k)                                                                                                   \
    PERMUTE_8(x, k, (k + 1) % 8, (k + 2) % 8, (k + 3) % 8, (k + 4) % 8, (k + 5) % 8, (k + 6) % 8, (k + 7) % 8)
#define WIDTH    8
#define TAPS     3
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define NAME(id) id##_16_8
#include "ops/conv/simd/simd_group.inc"

const struct zt_simd_group_kernel *zt_simd_group_kernel(int64_t width) {
    static const struct zt_simd_group_kernel
        *const wide[] = { &kernel_16_1, &kernel_16_2, &kernel_16_4, &kernel_16_8, NULL },
               *const narrow[] = { &kernel_8_1, &kernel_8_2, &kernel_8_4, NULL }, *const none = NULL;
    const struct zt_simd_group_kernel *const *k = zt_isa_has(ZT_ISA_AVX512) ? wide
                                                  : zt_isa_has(ZT_ISA_AVX2) ? narrow
                                                                            : &none;
    while (*k && (*k)->width != width)
        k++;
    return *k;
}

#else

const struct zt_simd_group_kernel *zt_simd_group_kernel(int64_t width) {
    (void)width;
    return NULL;
}

#endif
