#include "ops/cpu/gradient/simd_outer_sums.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#define FUSED_ONLY
#define BODY "ops/cpu/gradient/simd_outer_sums.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_outer_kernels *zt_outer_kernels(void) {
    return OF_MACHINE(&kernels);
}
