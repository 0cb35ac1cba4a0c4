#include "ops/linear_attention/simd_linear.h"
#include "ops/linear_attention/launch_linear_attention.h"

#include <math.h>
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wpsabi"           /* functions that take vectors are all inlined */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_math.inc */

#define BODY "ops/linear_attention/simd_linear.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_simd_linear *zt_simd_linear(void) {
    return OF_MACHINE(&loops);
}
