/* Vector loops of pooling on a blocked plane (ops/cpu/blocked_layout.h), whose pixels are `vector` channels side by
 * side. The loops are compiled for several instruction sets, chosen by CPUID; all give the same bits. No pointer may be
 * NULL unless said. */
#ifndef ZT_OPS_POOL_SIMD_POOL_H
#define ZT_OPS_POOL_SIMD_POOL_H

#include <stdint.h>

enum {
    ZT_POOL_Z,
    ZT_POOL_Y,
    ZT_POOL_X,
    ZT_POOL_AXES
}; /* axes of a plane; a plane of fewer axes has one element along the first ones */
struct zt_simd_pool {
    int64_t in[ZT_POOL_AXES], out[ZT_POOL_AXES], kernel[ZT_POOL_AXES], stride[ZT_POOL_AXES], dilation[ZT_POOL_AXES],
        pad[ZT_POOL_AXES];
    int64_t pixel; /* elements from a pixel to the next */
    int wide;      /* positions are int32_t, else uint8_t */
};

/* The first maximum of each window, or its first NaN. position (may be NULL): the index of that element in the window.
 */
typedef void zt_simd_max(const struct zt_simd_pool *p, const float *x, float *y, void *position);
/* dx = dy at the position of the maximum, 0 elsewhere. relu (may be NULL): a result of ReLU in the shape of dy; where
 * it is not positive, dx is 0. */
typedef void zt_simd_max_grad(const struct zt_simd_pool *p, const float *dy, const float *relu, const void *position,
                              float *dx);

/* Sums over windows. A sum is divided by the product of share[axis][o] over the axes (share NULL: by 1). */
enum zt_simd_sum_kind { ZT_SIMD_SUM, ZT_SIMD_SUM_ABS, ZT_SIMD_ROOT_OF_SQUARES };
typedef void zt_simd_sum(const struct zt_simd_pool *p, enum zt_simd_sum_kind kind, const float *const *share,
                         const float *x, float *y);
/* The gradient of ZT_SIMD_SUM: dx = the sum of dy / share over the windows that hold an element. */
typedef void zt_simd_sum_grad(const struct zt_simd_pool *p, const float *const *share, const float *dy, float *dx);

struct zt_pool_kernels {
    zt_simd_max *max;
    zt_simd_max_grad *max_grad;
    zt_simd_sum *sum;
    zt_simd_sum_grad *sum_grad;
};
/* vector: 8 or 16, the channels of a block. */
const struct zt_pool_kernels *zt_pool_kernels(int vector);

#endif
