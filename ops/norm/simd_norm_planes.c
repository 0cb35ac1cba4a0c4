#include "ops/norm/simd_norm_planes.h"

#include <math.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_math.inc */

#define BODY "ops/norm/simd_norm_planes.inc"
#include "ops/cpu/simd_plane_targets.inc"

const struct zt_norm_plane_kernels *zt_norm_plane_kernels(int vector) {
    return OF_VECTOR(&kernels, vector);
}
