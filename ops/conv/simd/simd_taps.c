#include "ops/conv/simd/simd_taps.h"
#include "ops/cpu/simd_halves.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#define FUSED_ONLY
#define BODY "ops/conv/simd/simd_taps.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_taps_kernels *zt_taps_kernels(void) {
    return OF_MACHINE(&kernels);
}
