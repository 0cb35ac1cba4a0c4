#include "ops/cpu/winograd/simd_winograd.h"

#include <stddef.h>

/* Tiles are registers, not arrays: the loops over them must unroll at every optimisation level. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

enum { ROWS = 6 }; /* of a product in registers */

#define FUSED_ONLY
#define BODY "ops/cpu/winograd/simd_winograd.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_winograd_kernels *zt_winograd_kernels(enum zt_winograd_form form) {
    const struct zt_winograd_kernels *const *kernels = OF_MACHINE(kernels);
    return kernels ? kernels[form] : NULL;
}
