#include "ops/cpu/simd_rows.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 14 }; /* elements a thread takes at a time */

struct zt_bundles zt_bundles_of(const struct zt_axis_slices *l, enum zt_dtype dtype, int lanes) {
    struct zt_bundles all = { .lines = *l, .blocks = (l->inner + lanes - 1) / lanes };
    bool across = l->inner == 1;
    int64_t last = across ? l->length : l->inner;
    last -= (last - 1) / lanes * lanes;
    all.whole = (struct zt_bundle){ dtype, across, l->length, l->inner, lanes, lanes };
    if (across) {
        all.whole.count = (l->length + lanes - 1) / lanes;
        all.whole.step = lanes;
        all.whole.last = (int)last;
    }
    all.edge = all.whole;
    if (!across)
        all.edge.lanes = all.edge.last = (int)last;
    int64_t elements = l->length * (across ? 1 : lanes);
    all.count = l->length ? l->outer * all.blocks : 0;
    all.grain = elements < CHUNK ? CHUNK / (elements ? elements : 1) : 1;
    return all;
}

struct zt_bundle zt_bundle_at(const struct zt_bundles *all, int64_t i, int64_t *start, int64_t *line) {
    int64_t outer = i / all->blocks, block = i % all->blocks, first = block * all->whole.lanes;
    *start = outer * all->lines.length * all->lines.inner + first;
    *line = outer * all->lines.inner + first;
    return block == all->blocks - 1 ? all->edge : all->whole;
}

struct round {
    const struct zt_bundles *all;
    zt_bundle_function *one;
    const void *with;
};

static void run_chunk(void *arg, int64_t chunk) {
    const struct round *r = arg;
    int64_t i = chunk * r->all->grain, end = i + r->all->grain < r->all->count ? i + r->all->grain : r->all->count;
    for (; i < end; i++) {
        int64_t start, line;
        struct zt_bundle b = zt_bundle_at(r->all, i, &start, &line);
        r->one(r->with, &b, start, line);
    }
}

void zt_bundles_each(const struct zt_bundles *all, int threads, zt_bundle_function *one, const void *with) {
    struct round r = { all, one, with };
    zt_parallel_for(threads, zt_bundle_blocks(all), run_chunk, &r);
}

bool zt_row_type(enum zt_dtype dtype) {
    return dtype == ZT_FLOAT || dtype == ZT_BFLOAT16 || dtype == ZT_FLOAT16;
}

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

enum {
    SPAN = 64,  /* vectors added up before they go to the total */
    NEAR = 128, /* vectors of a bundle that are brought together */
};
static const int32_t lane_numbers[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

#define LANES                  16
#define TARGET                 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define NAME(id)               id##_16
#define FMA(a, b, c)           ((FLOATS)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define BIGGER(a, b)           ((FLOATS)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SMALLER(a, b)          ((FLOATS)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define LOAD_PART(from, lanes) ((FLOATS)_mm512_maskz_loadu_ps((__mmask16)((1U << (lanes)) - 1), from))
#define HALF_LOAD(from)        ((FLOATS)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from))))
#define HALF_STORE(to, x)      _mm256_storeu_si256((__m256i *)(to), _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT))
#include "ops/cpu/simd_rows.inc"

#define LANES                  8
#define TARGET                 __attribute__((target("avx2,fma,f16c")))
#define NAME(id)               id##_8
#define FMA(a, b, c)           ((FLOATS)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define BIGGER(a, b)           ((FLOATS)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLER(a, b)          ((FLOATS)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define LOAD_PART(from, lanes) ((FLOATS)_mm256_maskload_ps(from, (__m256i)F(within)((int)(lanes))))
#define HALF_LOAD(from)        ((FLOATS)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#define HALF_STORE(to, x)      _mm_storeu_si128((__m128i *)(to), _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))
#include "ops/cpu/simd_rows.inc"

const struct zt_row_kernels *zt_row_kernels(void) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return &kernels_16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) /* and f16c, which is older than both */
        return &kernels_8;
    return NULL;
}

#else

const struct zt_row_kernels *zt_row_kernels(void) {
    return NULL;
}

#endif
