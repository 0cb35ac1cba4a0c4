#include "ops/norm/simd_norm.h"

#include <math.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_rows.inc */

#define FUSED_ONLY
#define BODY "ops/norm/simd_norm.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_norm_kernels *zt_norm_kernels(void) {
    return OF_MACHINE(&kernels);
}
