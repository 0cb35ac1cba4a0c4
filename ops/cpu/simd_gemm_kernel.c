#include "ops/cpu/simd_gemm.h"
#include "ops/cpu/isa.h"

#include "base/half.h"
#include "ops/kernel/unrolled.h"

#if defined(__x86_64__)
#include "ops/cpu/simd_pairs.h"

#include <immintrin.h>
#include <string.h>

/* Not for sanitizers, whose checks keep the sums out of registers; packing and what is given are checked. */
#define UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))

/* Lane l of to[4 i] is lane i of from[4 l]. */
__attribute__((target("avx512f"), always_inline)) static inline void join_lanes_16(const __m512 *from, __m512 *to) {
    const __m512 low = _mm512_shuffle_f32x4(from[0], from[4], 0x44),
                 high = _mm512_shuffle_f32x4(from[0], from[4], 0xee);
    const __m512 low_2 = _mm512_shuffle_f32x4(from[8], from[12], 0x44);
    const __m512 high_2 = _mm512_shuffle_f32x4(from[8], from[12], 0xee);
    to[0] = _mm512_shuffle_f32x4(low, low_2, 0x88);
    to[4] = _mm512_shuffle_f32x4(low, low_2, 0xdd);
    to[8] = _mm512_shuffle_f32x4(high, high_2, 0x88);
    to[12] = _mm512_shuffle_f32x4(high, high_2, 0xdd);
}

__attribute__((target("avx2"), always_inline)) static inline void join_lanes_8(const __m256 *from, __m256 *to) {
    to[0] = _mm256_permute2f128_ps(from[0], from[4], 0x20);
    to[4] = _mm256_permute2f128_ps(from[0], from[4], 0x31);
}

/* Fetches the lines of one tile. */
static inline void fetch_ahead(struct zt_simd_gemm_ahead *const *to) {
    for (int i = 0; i < 2; i++) {
        if (!to[i])
            continue;
        struct zt_simd_gemm_ahead a = *to[i];
        for (int64_t line = 0; line < a.each; line++) {
            __builtin_prefetch(a.at, 0, 2);
            a.at += a.step;
            if (++a.row == a.rows) {
                a.row = 0;
                a.at += ZT_GEMM_LINE - a.rows * a.step;
            }
        }
        *to[i] = a;
    }
}

static inline float word_float(const float *p, int64_t next, int64_t left) {
    (void)next, (void)left;
    return *p;
}

__attribute__((always_inline)) static inline void side_by_side_float(const float *from, int64_t next, int width,
                                                                     float *to) {
    (void)next;
    memcpy(to, from, (size_t)width * sizeof *to);
}

#define word_16         word_float
#define side_by_side_16 side_by_side_float
#define word_8          word_float
#define side_by_side_8  side_by_side_float

#define ELEMENT      float
#define VECTOR       16
#define ROWS         12 /* 24 registers of 32 hold sums */
#define TARGET       __attribute__((target("avx512f")))
#define INSTRUCTION  "vfmadd231ps"
#define REGISTER     "v"
#define BROADCAST(x) ((FLOATS)_mm512_set1_ps(x))
#define MM(id)       _mm512_##id
#define WIDE         __m512
#define WORDS(p)     _mm512_loadu_ps(p)
#define ROW_WORDS(p) ((FLOATS)_mm512_maskz_loadu_ps((1 << ROWS) - 1, p))
#define DEPTHS       1
#define ROUND        NULL
#define NAME(id)     id##_16
#include "ops/cpu/simd_gemm.inc"

#define ELEMENT      float
#define VECTOR       8
#define ROWS         6 /* 12 of 16 */
#define TARGET       __attribute__((target("avx2,fma")))
#define INSTRUCTION  "vfmadd231ps"
#define REGISTER     "x"
#define BROADCAST(x) ((FLOATS)_mm256_set1_ps(x))
#define MM(id)       _mm256_##id
#define WIDE         __m256
#define WORDS(p)     _mm256_loadu_ps(p)
#define ROW_WORDS(p) ((FLOATS)_mm256_maskload_ps(p, _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0)))
#define DEPTHS       1
#define ROUND        NULL
#define NAME(id)     id##_8
#include "ops/cpu/simd_gemm.inc"

#define BFLOAT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

BFLOAT static void round_bfloat(const float *from, int64_t count, uint16_t *to) {
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 used = (__mmask16)(count - i < 16 ? (1U << (count - i)) - 1 : 0xffff);
        _mm256_mask_storeu_epi16(to + i, used, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(used, from + i)));
    }
}

#define join_lanes_bfloat join_lanes_16

/* The first depth is the low half of a word; 0 beyond the last. */
static inline float word_bfloat(const float *p, int64_t next, int64_t left) {
    const uint32_t low = zt_float_to_bfloat(p[0]), high = left > 1 ? zt_float_to_bfloat(p[next]) : 0;
    return zt_float_of_bits(low | high << 16);
}

BFLOAT static inline void side_by_side_bfloat(const float *from, int64_t next, int width, float *to) {
    for (int l = 0; l < width; l += 16) {
        const __mmask16 used = (__mmask16)(width - l < 16 ? (1U << (width - l)) - 1 : 0xffff);
        const __m512 low = _mm512_maskz_loadu_ps(used, from + l), high = _mm512_maskz_loadu_ps(used, from + next + l);
        const __m512i apart = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        _mm512_mask_storeu_epi32(to + l, used, zt_by_turns(apart));
    }
}

#define ELEMENT      float
#define VECTOR       16
#define ROWS         12
#define TARGET       BFLOAT
#define INSTRUCTION  "vdpbf16ps"
#define REGISTER     "v"
#define BROADCAST(x) ((FLOATS)_mm512_set1_ps(x))
#define MM(id)       _mm512_##id
#define WIDE         __m512
#define WORDS(p)     ((__m512)_mm512_cvtne2ps_pbh(_mm512_loadu_ps((p) + 16), _mm512_loadu_ps(p)))
#define ROW_WORDS(p) ((FLOATS)_mm512_maskz_loadu_ps((1 << ROWS) - 1, p))
#define DEPTHS       2
#define ROUND        round_bfloat
#define NAME(id)     id##_bfloat
#include "ops/cpu/simd_gemm.inc"

#define join_lanes_of_bfloat join_lanes_16

static inline float word_of_bfloat(const uint16_t *p, int64_t next, int64_t left) {
    return zt_float_of_bits(p[0] | (left > 1 ? (uint32_t)p[next] << 16 : 0));
}

BFLOAT static inline void side_by_side_of_bfloat(const uint16_t *from, int64_t next, int width, float *to) {
    static const uint16_t first[32] = { 0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                        8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47 };
    for (int l = 0; l < width; l += 32) {
        const int left = width - l < 32 ? width - l : 32;
        const __mmask32 used = left < 32 ? (1U << left) - 1 : ~0U;
        const __m512i low = _mm512_maskz_loadu_epi16(used, from + l),
                      high = _mm512_maskz_loadu_epi16(used, from + next + l), order = _mm512_loadu_si512(first);
        _mm512_mask_storeu_epi32(to + l, (__mmask16)used, _mm512_permutex2var_epi16(low, order, high));
        if (left > 16)
            _mm512_mask_storeu_epi32(
                to + l + 16, (__mmask16)(used >> 16),
                _mm512_permutex2var_epi16(low, _mm512_add_epi16(order, _mm512_set1_epi16(16)), high));
    }
}

#define ELEMENT  uint16_t
#define VECTOR   16
#define ROWS     12
#define TARGET   BFLOAT
#define MM(id)   _mm512_##id
#define WIDE     __m512
#define WORDS(p) _mm512_loadu_ps(p)
#define DEPTHS   2
#define ROUND    round_bfloat
#define TILES    tiles_bfloat
#define NAME(id) id##_of_bfloat
#include "ops/cpu/simd_gemm.inc"

static const struct zt_simd_gemm_kernel kernel_of_bfloat_by_float = {
    .rows = 12,
    .cols = 32,
    .depths = 2,
    .a_bytes = sizeof(uint16_t),
    .b_bytes = sizeof(float),
    .pack_rows = pack_rows_of_bfloat,
    .pack_cols = pack_cols_bfloat,
    .tiles = tiles_bfloat,
    .round = round_bfloat,
};

const struct zt_simd_gemm_kernel *zt_simd_gemm_bfloat(void) {
    return zt_isa_has(ZT_ISA_AVX512_BF16) ? &kernel_bfloat : NULL;
}

const struct zt_simd_gemm_kernel *zt_simd_gemm_of_bfloat(void) {
    return zt_isa_has(ZT_ISA_AVX512_BF16) ? &kernel_of_bfloat : NULL;
}

const struct zt_simd_gemm_kernel *zt_simd_gemm_of_bfloat_by_float(void) {
    return zt_isa_has(ZT_ISA_AVX512_BF16) ? &kernel_of_bfloat_by_float : NULL;
}

const struct zt_simd_gemm_kernel *zt_simd_gemm_kernel(int vector) {
    if (vector == 16 && zt_isa_has(ZT_ISA_AVX512))
        return &kernel_16;
    if (vector == 8 && zt_isa_has(ZT_ISA_AVX2))
        return &kernel_8;
    return NULL;
}

#else

const struct zt_simd_gemm_kernel *zt_simd_gemm_bfloat(void) {
    return NULL;
}

const struct zt_simd_gemm_kernel *zt_simd_gemm_of_bfloat(void) {
    return NULL;
}

const struct zt_simd_gemm_kernel *zt_simd_gemm_of_bfloat_by_float(void) {
    return NULL;
}

const struct zt_simd_gemm_kernel *zt_simd_gemm_kernel(int vector) {
    (void)vector;
    return NULL;
}

#endif

const struct zt_simd_gemm_kernel *zt_simd_gemm_best(void) {
    const struct zt_simd_gemm_kernel *wide = zt_simd_gemm_kernel(16);
    return wide ? wide : zt_simd_gemm_kernel(8);
}
