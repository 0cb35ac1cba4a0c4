/* Words of two bfloat16 of which one lies in each half of a vector: depths of a product (simd_gemm.h, winograd/). For
 * files that include immintrin.h, in functions for AVX-512 with words of 16 bits. */
#ifndef ZT_OPS_CPU_SIMD_PAIRS_H
#define ZT_OPS_CPU_SIMD_PAIRS_H

#include <immintrin.h>
#include <stdint.h>

/* Elements 0, 16, 1, 17, ... of 32. */
__attribute__((target("avx512f,avx512bw"), always_inline)) static inline __m512i zt_by_turns(__m512i halves) {
    static const uint16_t order[32] = { 0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 };
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), halves);
}

#endif
