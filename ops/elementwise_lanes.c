#include "ops/elementwise_lanes.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* Bits of a float. */
static inline uint32_t bits_of(float x) {
    union {
        float f;
        uint32_t u;
    } v = { x };
    return v.u;
}
static inline float float_of(uint32_t bits) {
    union {
        uint32_t u;
        float f;
    } v = { bits };
    return v.f;
}

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

struct zt_lane_moves {
    void (*load[ZT_DTYPES])(const void *from, int64_t n, float *to);
    void (*store[ZT_DTYPES])(const float *from, int64_t n, void *to);
};

#define LANES 4
#define TARGET
#define NAME(id)        id##_plain
#define MULADD(a, b, c) ((a) * (b) + (c))
#define LESS(a, b)      F(choose)((a) < (b), a, b)
#define MORE(a, b)      F(choose)((a) > (b), a, b)
#include "ops/elementwise_body.inc"
#if defined(__x86_64__)
#include <immintrin.h>
#define LANES            8
#define TARGET           __attribute__((target("avx2,fma,f16c")))
#define NAME(id)         id##_avx2
#define HALF_LOAD(p)     ((FLOATS)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p))))
#define HALF_STORE(p, x) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))
#define MULADD(a, b, c)  ((FLOATS)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define LESS(a, b)       ((FLOATS)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define MORE(a, b)       ((FLOATS)_mm256_max_ps((__m256)(a), (__m256)(b)))
#include "ops/elementwise_body.inc"
#define LANES           16
#define TARGET          __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define NAME(id)        id##_avx512
#define MULADD(a, b, c) ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define LESS(a, b)      ((FLOATS)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define MORE(a, b)      ((FLOATS)_mm512_max_ps((__m512)(a), (__m512)(b)))
#include "ops/elementwise_body.inc"
#endif

zt_lane_function *const *zt_lane_functions(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return functions_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return functions_avx2;
#endif
    return functions_plain;
}

static const struct zt_lane_moves *moves(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &moves_avx2;
#endif
    return &moves_plain;
}

void zt_lane_load(enum zt_dtype dtype, const void *from, int64_t n, float *to) {
    moves()->load[dtype](from, n, to);
}

void zt_lane_store(enum zt_dtype dtype, const float *from, int64_t n, void *to) {
    moves()->store[dtype](from, n, to);
}
