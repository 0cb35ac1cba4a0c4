#include "ops/movement/simd/simd_shuffle.h"
#include "ops/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { AHEAD = 4096 }; /* bytes, where the processor's own fetching ends */

static inline void fetch(const struct zt_simd_shuffle *s, int64_t at) {
    for (int k = 0; k < s->sources; k++)
        __builtin_prefetch(s->from[k] + at + AHEAD, 0, 2);
    __builtin_prefetch(s->to + at + AHEAD, 1, 2);
}

/* A pixel in words of 32 bits. */
#define FULL_LOAD(p)     _mm512_loadu_si512(p)
#define FULL_STORE(p, y) _mm512_storeu_si512(p, y)
#define HALF_LOAD(p)     _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p)))
#define HALF_STORE(p, y) _mm256_storeu_si256((__m256i *)(p), _mm512_cvtepi32_epi16(y))

#define RUN_512(name, BYTES, LOAD, STORE)                                                                              \
    __attribute__((target("avx512f,avx512bw"))) static void name(const struct zt_simd_shuffle *s) {                    \
        const __m512i lane = _mm512_loadu_si512(s->lane); /* of a pair of sources, of which bit 4 names one */         \
        const __mmask16 second = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(32));                                  \
        const __mmask16 used = (__mmask16)((1U << s->used) - 1);                                                       \
        const char *const *from = s->from;                                                                             \
        for (int64_t i = 0, at = 0; i < s->pixels; i++, at += 16 * (BYTES)) {                                          \
            const __m512i a = LOAD(from[0] + at), b = LOAD(from[s->sources > 1] + at);                                 \
            __m512i y = _mm512_permutex2var_epi32(a, lane, b);                                                         \
            fetch(s, at);                                                                                              \
            if (s->sources > 2) {                                                                                      \
                const __m512i c = LOAD(from[2] + at), d = LOAD(from[s->sources > 3 ? 3 : 2] + at);                     \
                y = _mm512_mask_blend_epi32(second, y, _mm512_permutex2var_epi32(c, lane, d));                         \
            }                                                                                                          \
            STORE(s->to + at, _mm512_maskz_mov_epi32(used, y));                                                        \
        }                                                                                                              \
    }
RUN_512(full_512, 4, FULL_LOAD, FULL_STORE)
RUN_512(half_512, 2, HALF_LOAD, HALF_STORE)

#define SHORT_FULL_LOAD(p)     _mm256_loadu_si256((const __m256i *)(p))
#define SHORT_FULL_STORE(p, y) _mm256_storeu_si256((__m256i *)(p), y)
#define SHORT_HALF_LOAD(p)     _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define SHORT_HALF_STORE(p, y)                                                                                         \
    _mm_storeu_si128((__m128i *)(p), _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(y, y), 0x08)))

#define RUN_256(name, BYTES, LOAD, STORE)                                                                              \
    __attribute__((target("avx2"))) static void name(const struct zt_simd_shuffle *s) {                                \
        const __m256i lane = _mm256_loadu_si256((const __m256i *)s->lane), source = _mm256_srli_epi32(lane, 3);        \
        const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);                                              \
        const __m256i used = _mm256_cmpgt_epi32(_mm256_set1_epi32(s->used), number);                                   \
        for (int64_t i = 0, at = 0; i < s->pixels; i++, at += 8 * (BYTES)) {                                           \
            __m256i y = _mm256_permutevar8x32_epi32(LOAD(s->from[0] + at), lane);                                      \
            fetch(s, at);                                                                                              \
            for (int k = 1; k < s->sources; k++) {                                                                     \
                const __m256i here = _mm256_cmpeq_epi32(source, _mm256_set1_epi32(k));                                 \
                y = _mm256_blendv_epi8(y, _mm256_permutevar8x32_epi32(LOAD(s->from[k] + at), lane), here);             \
            }                                                                                                          \
            STORE(s->to + at, _mm256_and_si256(y, used));                                                              \
        }                                                                                                              \
    }
RUN_256(full_256, 4, SHORT_FULL_LOAD, SHORT_FULL_STORE)
RUN_256(half_256, 2, SHORT_HALF_LOAD, SHORT_HALF_STORE)

zt_simd_shuffle_run *zt_simd_shuffle(int64_t vector, size_t bytes) {
    if ((bytes != 2 && bytes != 4) || !zt_isa_has(vector == 16 ? ZT_ISA_AVX512 : ZT_ISA_AVX2))
        return NULL;
    if (vector == 16)
        return bytes == 4 ? full_512 : half_512;
    return vector != 8 ? NULL : bytes == 4 ? full_256 : half_256;
}
#else
zt_simd_shuffle_run *zt_simd_shuffle(int64_t vector, size_t bytes) {
    (void)vector, (void)bytes;
    return NULL;
}
#endif
