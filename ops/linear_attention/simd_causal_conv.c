#include "ops/linear_attention/simd_causal_conv.h"

#include <math.h>
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wpsabi"           /* functions that take vectors are all inlined */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_math.inc */

#define BODY "ops/linear_attention/simd_causal_conv.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_simd_causal *zt_simd_causal(void) {
    return OF_MACHINE(&loops);
}
