#include "ops/attention/simd_small_heads.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#define FUSED_ONLY
#define BODY "ops/attention/simd_small_heads.inc"
#include "ops/cpu/simd_targets.inc"

zt_lane_product_run *zt_lane_product(void) {
    return OF_MACHINE(&product);
}
