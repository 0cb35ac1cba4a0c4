#include "ops/movement/simd/simd_shuffle.h"
#include "ops/cpu/isa.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { AHEAD = 1024 }; /* floats, where the processor's own fetching ends */

static inline void fetch(const struct zt_simd_shuffle *s, int64_t at) {
    for (int k = 0; k < s->sources; k++)
        __builtin_prefetch(s->from[k] + at + AHEAD, 0, 2);
    __builtin_prefetch(s->to + at + AHEAD, 1, 2);
}

__attribute__((target("avx512f"))) static void run_avx512(const struct zt_simd_shuffle *s) {
    const __m512i lane = _mm512_loadu_si512(s->lane); /* of a pair of sources, of which bit 4 names one */
    const __mmask16 second = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(32));
    const float *const *from = s->from;
    for (int64_t i = 0, at = 0; i < s->pixels; i++, at += 16) {
        const __m512 a = _mm512_loadu_ps(from[0] + at), b = _mm512_loadu_ps(from[s->sources > 1] + at);
        __m512 y = _mm512_permutex2var_ps(a, lane, b);
        fetch(s, at);
        if (s->sources > 2) {
            const __m512 c = _mm512_loadu_ps(from[2] + at), d = _mm512_loadu_ps(from[s->sources > 3 ? 3 : 2] + at);
            y = _mm512_mask_blend_ps(second, y, _mm512_permutex2var_ps(c, lane, d));
        }
        _mm512_storeu_ps(s->to + at, y);
    }
}

__attribute__((target("avx2"))) static void run_avx2(const struct zt_simd_shuffle *s) {
    const __m256i lane = _mm256_loadu_si256((const __m256i *)s->lane), source = _mm256_srli_epi32(lane, 3);
    for (int64_t i = 0, at = 0; i < s->pixels; i++, at += 8) {
        __m256 y = _mm256_permutevar8x32_ps(_mm256_loadu_ps(s->from[0] + at), lane);
        fetch(s, at);
        for (int k = 1; k < s->sources; k++) {
            const __m256i here = _mm256_cmpeq_epi32(source, _mm256_set1_epi32(k));
            const __m256 x = _mm256_permutevar8x32_ps(_mm256_loadu_ps(s->from[k] + at), lane);
            y = _mm256_blendv_ps(y, x, _mm256_castsi256_ps(here));
        }
        _mm256_storeu_ps(s->to + at, y);
    }
}

zt_simd_shuffle_run *zt_simd_shuffle(int64_t vector) {
    if (vector == 16 && zt_isa_has(ZT_ISA_AVX512))
        return run_avx512;
    return vector == 8 && zt_isa_has(ZT_ISA_AVX2) ? run_avx2 : NULL;
}
#else
zt_simd_shuffle_run *zt_simd_shuffle(int64_t vector) {
    (void)vector;
    return NULL;
}
#endif
