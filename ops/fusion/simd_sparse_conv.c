#include "ops/fusion/simd_sparse_conv.h"

#include <stddef.h>

/* Sums are kept in registers, not in an array: the loops over them must unroll at every optimisation level. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#define FUSED_ONLY
#define BODY "ops/fusion/simd_sparse_conv.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_sparse_kernels *zt_sparse_kernels(void) {
    return OF_MACHINE(&kernels);
}
