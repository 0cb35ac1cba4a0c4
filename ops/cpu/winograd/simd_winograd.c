#include "ops/cpu/winograd/simd_winograd.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

/* The first of the fewest parts of `rows`, none above `most`, that are alike. */
static inline int64_t even_part(int64_t rows, int64_t most) {
    const int64_t parts = (rows + most - 1) / most;
    return (rows + parts - 1) / parts;
}

#define FUSED_ONLY
#define BODY "ops/cpu/winograd/simd_winograd.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_winograd_kernels *zt_winograd_kernels(enum zt_winograd_form form) {
    const struct zt_winograd_kernels *const *kernels = OF_MACHINE(kernels);
    return kernels ? kernels[form] : NULL;
}
