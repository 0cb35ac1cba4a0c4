#include "ops/lanes_gate.h"

#include <math.h>
#include <stddef.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"           /* functions that take vectors are all inlined */
#pragma GCC diagnostic ignored "-Wunused-function" /* of lanes_math.inc */

#define LANES 8
#define TARGET
#define NAME(id)        id##_plain
#define MULADD(a, b, c) ((a) * (b) + (c))
#define LESS(a, b)      F(choose)((a) < (b), a, b)
#define MORE(a, b)      F(choose)((a) > (b), a, b)
#include "ops/lanes_gate.inc"
#if defined(__x86_64__)
#define LANES           8
#define TARGET          __attribute__((target("avx2,fma")))
#define NAME(id)        id##_avx2
#define MULADD(a, b, c) ((FLOATS)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define LESS(a, b)      ((FLOATS)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define MORE(a, b)      ((FLOATS)_mm256_max_ps((__m256)(a), (__m256)(b)))
#include "ops/lanes_gate.inc"
#define LANES           16
#define TARGET          __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define NAME(id)        id##_avx512
#define MULADD(a, b, c) ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define LESS(a, b)      ((FLOATS)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define MORE(a, b)      ((FLOATS)_mm512_max_ps((__m512)(a), (__m512)(b)))
#include "ops/lanes_gate.inc"
#endif

const struct zt_lane_cells *zt_lane_cells(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return &cells_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &cells_avx2;
#endif
    return &cells_plain;
}

void zt_lane_gate_clip(struct zt_lane_gate *gate, float clip) {
    float bound[2], cut[2] = { -clip, clip };
    for (int i = 0; i < 2; i++) {
        struct zt_lane_gate open = { gate->kind, INFINITY, -INFINITY, INFINITY };
        float x = cut[i], h, y;
        struct zt_lane_row row = { .hidden = 1, .function = &open, .gate = &x, .h = &h, .y = &y };
        zt_lane_cells()->rnn(&row);
        bound[i] = y;
    }
    gate->clip = clip;
    gate->low = isinf(clip) ? -INFINITY : bound[0];
    gate->high = isinf(clip) ? INFINITY : bound[1];
}
