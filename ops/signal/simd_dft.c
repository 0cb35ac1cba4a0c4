#include "ops/signal/simd_dft.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

/* Two vectors of n numbers as one of 2 n: its halves where the numbers of both alternate, and its even and odd numbers.
 */
#define LOWER_2(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define UPPER_2(a, b)  __builtin_shufflevector(a, b, 1, 3)
#define EVEN_2(a, b)   __builtin_shufflevector(a, b, 0, 2)
#define ODD_2(a, b)    __builtin_shufflevector(a, b, 1, 3)
#define LOWER_4(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UPPER_4(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define EVEN_4(a, b)   __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD_4(a, b)    __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOWER_8(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER_8(a, b)  __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN_8(a, b)   __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_8(a, b)    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOWER_16(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define UPPER_16(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EVEN_16(a, b)  __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_16(a, b)   __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)

/* Before a loop whose iterations write nothing that others read. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define BODY "ops/signal/simd_dft.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_simd_dft *zt_simd_dft(void) {
    return OF_MACHINE(&kernels);
}
