#include "ops/conv/simd/simd_lines.h"
#include "ops/cpu/simd_halves.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#define FUSED_ONLY
#define BODY "ops/conv/simd/simd_lines.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_lines_kernels *zt_lines_kernels(void) {
    return OF_MACHINE(&kernels);
}
