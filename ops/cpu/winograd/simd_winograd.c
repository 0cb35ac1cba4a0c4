#include "ops/cpu/winograd/simd_winograd.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

enum { ROWS = 6 }; /* of a product in registers */

#define FUSED_ONLY
#define BODY "ops/cpu/winograd/simd_winograd.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_winograd_kernels *zt_winograd_kernels(enum zt_winograd_form form) {
    const struct zt_winograd_kernels *const *kernels = OF_MACHINE(kernels);
    return kernels ? kernels[form] : NULL;
}
