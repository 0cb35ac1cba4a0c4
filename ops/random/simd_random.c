#include "ops/random/simd_random.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined */

/* The state of the generator is registers, not an array. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#define BODY "ops/random/simd_random.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_simd_random *zt_simd_random(void) {
    return OF_MACHINE(&loops);
}
