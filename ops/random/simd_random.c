#include "ops/random/simd_random.h"
#include "ops/kernel/unrolled.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined */

#define BODY "ops/random/simd_random.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_simd_random *zt_simd_random(void) {
    return OF_MACHINE(&loops);
}
