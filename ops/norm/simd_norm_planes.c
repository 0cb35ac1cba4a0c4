#include "ops/norm/simd_norm_planes.h"

#include <math.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_math.inc */

#define PLANE_TYPE ZT_FLOAT
#define NAMED(id)  id
#define BODY       "ops/norm/simd_norm_planes.inc"
#include "ops/cpu/simd_plane_targets.inc"
#undef PLANE_TYPE
#undef NAMED

#define PLANE_TYPE ZT_BFLOAT16
#define NAMED(id)  id##_bfloat
#define BODY       "ops/norm/simd_norm_planes.inc"
#include "ops/cpu/simd_plane_targets.inc"

const struct zt_norm_plane_kernels *zt_norm_plane_kernels(int vector, enum zt_dtype dtype) {
    return dtype == ZT_BFLOAT16 ? OF_VECTOR(&kernels_bfloat, vector) : OF_VECTOR(&kernels, vector);
}
