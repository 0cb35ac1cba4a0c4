#include "ops/fusion/simd_sparse_conv.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#if defined(__x86_64__)
/* The numbers of the bits that are set in 0 to 255, a byte each from the lowest bit on: macros, so that the compiler
 * makes the table. */
#define ONE(m, bit)  ((uint64_t)((m) >> (bit)&1) * (bit) << 8 * __builtin_popcount((m) & ((1 << (bit)) - 1)))
#define ORDER(m)     (ONE(m, 1) | ONE(m, 2) | ONE(m, 3) | ONE(m, 4) | ONE(m, 5) | ONE(m, 6) | ONE(m, 7))
#define ORDERS_4(m)  ORDER(m), ORDER((m) + 1), ORDER((m) + 2), ORDER((m) + 3)
#define ORDERS_16(m) ORDERS_4(m), ORDERS_4((m) + 4), ORDERS_4((m) + 8), ORDERS_4((m) + 12)
#define ORDERS_64(m) ORDERS_16(m), ORDERS_16((m) + 16), ORDERS_16((m) + 32), ORDERS_16((m) + 48)
static const uint64_t orders[256] = { ORDERS_64(0), ORDERS_64(64), ORDERS_64(128), ORDERS_64(192) };
#endif

#define AHEAD 32 /* windows that are fetched before they are read */
#define FUSED_ONLY
#define BODY "ops/fusion/simd_sparse_conv.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_sparse_kernels *zt_sparse_kernels(void) {
    return OF_MACHINE(&kernels);
}
