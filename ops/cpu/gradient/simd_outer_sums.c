#include "ops/cpu/gradient/simd_outer_sums.h"

#include <stddef.h>

/* Sums are registers, not arrays: the loops over them must unroll at every optimisation level. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#define FUSED_ONLY
#define BODY "ops/cpu/gradient/simd_outer_sums.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_outer_kernels *zt_outer_kernels(void) {
    return OF_MACHINE(&kernels);
}
