/* Winograd's filtering of planes of bfloat16: transformed tiles and weights are rounded to bfloat16, the products of
 * both are added in float. */
#include "ops/cpu/isa.h"
#include "ops/cpu/simd_bytes.h"
#include "ops/cpu/winograd/simd_winograd.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#if defined(__x86_64__)
#include "ops/cpu/simd_pairs.h"

#include <immintrin.h>

#define VECTOR   16
#define TARGET   __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define NAME(id) id##_bfloat
#define ELEMENT  uint16_t
#define DEPTHS   2

TARGET static inline __m512 read_bfloat(const void *p) {
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
}

TARGET static inline void write_bfloat(void *p, __m512 x) {
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(x));
}

TARGET static void pair_pixels(const void *first, const void *second, float *to) {
    const __m256i low = _mm256_loadu_si256(first), high = _mm256_loadu_si256(second);
    _mm512_storeu_si512(to, zt_by_turns(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)));
}

/* To the low halves of words, whose high ones become 0, or to the high ones. */
TARGET static inline void write_depth(float *p, __m512 x, int depth) {
    const __m512i word = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
    const __m512i before = _mm512_maskz_loadu_epi32(depth ? 0xffff : 0, p);
    _mm512_storeu_si512(p, _mm512_or_si512(before, _mm512_sll_epi32(word, _mm_cvtsi32_si128(16 * depth))));
}

#define PAIR             pair_pixels
#define MULADD(a, b, c)  ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define WORD(a)          ((FLOATS)_mm512_set1_ps(a))
#define PRODUCT(a, b, c) ((FLOATS)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#define READ(p)          ((FLOATS)read_bfloat(p))
#define WRITE(p, x)      write_bfloat(p, (__m512)(x))
#define WRITE_WORDS(p, x, next)                                                                                        \
    _mm512_storeu_si512(p, zt_by_turns((__m512i)_mm512_cvtne2ps_pbh((__m512)(next), (__m512)(x))))
#define WRITE_DEPTH(p, x, d) write_depth(p, (__m512)(x), d)
#define BYTES(p)             ((NAME(ints))_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define PUT_BYTES(p, x)      _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8((__m512i)(x)))
#include "ops/cpu/winograd/simd_winograd.inc"

const struct zt_winograd_kernels *zt_winograd_bfloat_kernels(enum zt_winograd_form form) {
    return zt_isa_has(ZT_ISA_AVX512_BF16) ? kernels_bfloat[form] : NULL;
}
#else
const struct zt_winograd_kernels *zt_winograd_bfloat_kernels(enum zt_winograd_form form) {
    (void)form;
    return NULL;
}
#endif
