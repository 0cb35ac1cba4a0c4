/* Vector loops of Softmax, LogSoftmax and their gradients, on a bundle of axis slices (ops/cpu/simd_rows.h). */
#ifndef ZT_OPS_SOFTMAX_SIMD_SOFTMAX_H
#define ZT_OPS_SOFTMAX_SIMD_SOFTMAX_H

#include "ops/cpu/simd_rows.h"

struct zt_softmax_kernels {
    int vector; /* floats of a vector */
    void (*softmax)(const struct zt_bundle *b, const void *x, void *y);
    void (*log_softmax)(const struct zt_bundle *b, const void *x, void *y);
    void (*softmax_grad)(const struct zt_bundle *b, const void *dy, const void *y, void *dx);
    void (*log_softmax_grad)(const struct zt_bundle *b, const void *dy, const void *y, void *dx);
};
/* The kernels of the widest vectors that this machine has, NULL where it has no fused multiply-add. */
const struct zt_softmax_kernels *zt_softmax_kernels(void);

#endif
