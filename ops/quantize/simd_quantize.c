#include "ops/quantize/simd_quantize.h"

#include "ops/cpu/simd_rows.h"

#include <math.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_rows.inc */

#define FUSED_ONLY
#define BODY "ops/quantize/simd_quantize.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_quantize_kernels *zt_quantize_kernels(void) {
    return OF_MACHINE(&kernels);
}
