#include "ops/signal/simd_dft.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

#define BODY "ops/signal/simd_dft.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_simd_dft *zt_simd_dft(void) {
    return OF_MACHINE(&kernels);
}
