#include "ops/elementwise/simd_elementwise.h"

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

/* Loops from and to float, by type; NULL for types without one. */
struct conversions {
    void (*load[ZT_DTYPES])(const void *from, int64_t n, float *to);
    void (*store[ZT_DTYPES])(const float *from, int64_t n, void *to);
};

#define BODY "ops/elementwise/simd_elementwise.inc"
#include "ops/cpu/simd_targets.inc"

zt_simd_function *const *zt_simd_functions(void) {
    return OF_MACHINE(functions);
}

static const struct conversions *conversions(void) {
    return OF_MACHINE(&conversions);
}

void zt_simd_load(enum zt_dtype dtype, const void *from, int64_t n, float *to) {
    conversions()->load[dtype](from, n, to);
}

void zt_simd_store(enum zt_dtype dtype, const float *from, int64_t n, void *to) {
    conversions()->store[dtype](from, n, to);
}
