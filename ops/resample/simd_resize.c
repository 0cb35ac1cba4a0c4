#include "ops/resample/simd_resize.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

#define BODY "ops/resample/simd_resize.inc"
#include "ops/cpu/simd_plane_targets.inc"

const struct zt_resize_kernels *zt_resize_kernels(int vector) {
    return OF_VECTOR(&kernels, vector);
}
