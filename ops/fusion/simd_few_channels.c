#include "ops/fusion/simd_few_channels.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#define AHEAD 32 /* windows that are fetched before they are read */
#define FUSED_ONLY
#define BODY "ops/fusion/simd_few_channels.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_few_channels_kernels *zt_few_channels_kernels(void) {
    return OF_MACHINE(&kernels);
}
