#include "ops/fusion/simd_few_channels.h"

#include <stddef.h>

/* Results are kept in registers, not in an array: the loops over them must unroll at every optimisation level. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#define AHEAD 32 /* windows that are fetched before they are read */
#define FUSED_ONLY
#define BODY "ops/fusion/simd_few_channels.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_few_channels_kernels *zt_few_channels_kernels(void) {
    return OF_MACHINE(&kernels);
}
