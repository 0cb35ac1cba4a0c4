#include "ops/loss/simd_loss.h"

#include <math.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_rows.inc */

#define FUSED_ONLY
#define BODY "ops/loss/simd_loss.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_loss_kernels *zt_loss_kernels(void) {
    return OF_MACHINE(&kernels);
}
