/* Launchers of quantize.cu: QuantizeLinear, DequantizeLinear, ztrain.FakeQuantize and its gradient. Conventions:
 * ops/cuda/launch.h. Formulas and the numbers of scales: ops/quantize/quantize.h. */
#ifndef ZT_OPS_QUANTIZE_LAUNCH_QUANTIZE_H
#define ZT_OPS_QUANTIZE_LAUNCH_QUANTIZE_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zt_launch_quantize_rule { ZT_LAUNCH_QUANTIZE, ZT_LAUNCH_DEQUANTIZE, ZT_LAUNCH_FAKE_QUANTIZE };
struct zt_launch_quantize {
    enum zt_launch_quantize_rule rule;
    int64_t count; /* elements: outer * length * inner */
    int64_t length, inner, block, outer_step, step, inner_step, scales;
    enum zt_dtype type, precision;
    bool saturate, integer;
    struct zt_narrow format; /* of a float type of q */
    float low, high, factor; /* factor: of the gradient of a scale */
};
/* `from` or `to` has the type of q where the rule says so. */
int zt_launch_quantize(struct CUstream_st *stream, const struct zt_launch_quantize *q, struct zt_launch_tensor from,
                       struct zt_launch_tensor scale, struct zt_launch_tensor zero, struct zt_launch_tensor to);

/* The tensors of a gradient. dx and ds may be absent. */
struct zt_launch_quantize_grad {
    struct zt_launch_tensor dy, x, scale, zero, dx, ds;
    float *sums; /* room for zt_launch_quantize_sums() floats */
};
int64_t zt_launch_quantize_sums(const struct zt_launch_quantize *q);
int zt_launch_quantize_grad(struct CUstream_st *stream, const struct zt_launch_quantize *q,
                            const struct zt_launch_quantize_grad *t);

#ifdef __cplusplus
}
#endif

#endif
