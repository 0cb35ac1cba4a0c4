/* Vector loops of QuantizeLinear, DequantizeLinear, ztrain.FakeQuantize and its gradient (formulas: quantize.h) on a
 * stretch of adjacent elements. Tensors are float but q, which has an integer type; scales and zero points are given as
 * floats. The loops give the bits of the reference kernels; sums of a scale's gradient do not. */
#ifndef ZT_OPS_QUANTIZE_SIMD_QUANTIZE_H
#define ZT_OPS_QUANTIZE_SIMD_QUANTIZE_H

#include "graph/ir/dtype.h"

struct zt_quantize_span {
    int64_t count;
    const void *from; /* x, or q of dequantize */
    const float *dy;
    const float *scale, *zero; /* of the first element; the next one's follow (step 1), or serve all (step 0) */
    int step;
    enum zt_dtype type; /* of q */
    float low, high;
    void *to; /* q, y or dx */
};

struct zt_quantize_kernels {
    void (*quantize)(const struct zt_quantize_span *s);
    void (*dequantize)(const struct zt_quantize_span *s);
    void (*fake)(const struct zt_quantize_span *s);
    /* `to` and `sum` may be NULL. sum: the gradient of the scale without its factor is added, to one number or (step 1)
     * to `count`. */
    void (*gradient)(const struct zt_quantize_span *s, double *sum);
};
/* The kernels of the widest vectors that this machine has, NULL where it has no fused multiply-add. */
const struct zt_quantize_kernels *zt_quantize_kernels(void);

#endif
