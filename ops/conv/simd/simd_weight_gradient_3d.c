#include "ops/conv/simd/simd_weight_gradient_3d.h"
#include "ops/cpu/isa.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))

enum { VECTOR = ZT_WEIGHT_GRADIENT_WIDTH, AT_ONCE = 4 }; /* input channels: with two blocks, 8 registers of sums */

/* Inlined with `blocks` known, so that sums stay in registers. */
TARGET static inline __attribute__((always_inline)) void
add_gradient(const struct zt_simd_weight_gradient *r, int blocks, const float *x, const float *dy, float *w) {
    for (int first = 0; first < VECTOR; first += AT_ONCE) {
        __m256 sum[AT_ONCE][2];
        UNROLLED for (int i = 0; i < AT_ONCE; i++) UNROLLED for (int b = 0; b < blocks; b++) sum[i][b] =
            _mm256_setzero_ps();
        const float *from = x + first, *gradient = dy;
        for (int64_t p = r->pixels; p > 0; p--, from += r->x_step, gradient += VECTOR) {
            __m256 g[2];
            UNROLLED for (int b = 0; b < blocks; b++) g[b] = _mm256_loadu_ps(gradient + b * r->dy_block);
            UNROLLED for (int i = 0; i < AT_ONCE; i++) {
                const __m256 v = _mm256_set1_ps(from[i]);
                UNROLLED for (int b = 0; b < blocks; b++) sum[i][b] = _mm256_fmadd_ps(v, g[b], sum[i][b]);
            }
        }
        UNROLLED for (int i = 0; i < AT_ONCE; i++) UNROLLED for (int b = 0; b < blocks; b++) {
            float *to = w + b * r->w_block + (first + i) * VECTOR;
            _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), sum[i][b]));
        }
    }
}

TARGET static void run(const struct zt_simd_weight_gradient *r, const float *x, const float *dy, float *w) {
    if (r->blocks == 2)
        add_gradient(r, 2, x, dy, w);
    else
        add_gradient(r, 1, x, dy, w);
}

zt_simd_weight_gradient_run *zt_simd_weight_gradient_kernel(void) {
    return zt_isa_has(ZT_ISA_AVX2) && !zt_isa_has(ZT_ISA_AVX512) ? run : NULL;
}

#else

zt_simd_weight_gradient_run *zt_simd_weight_gradient_kernel(void) {
    return NULL;
}

#endif
