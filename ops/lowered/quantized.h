/* Tensors of integers with a scale and a zero point, as DequantizeLinear and QuantizeLinear of ONNX. A DequantizeLinear
 * of a QuantizeLinear has a gradient (ops/quantize/fake_quantize.c), so that a row of quantized operators has one. */
#ifndef ZT_OPS_LOWERED_QUANTIZED_H
#define ZT_OPS_LOWERED_QUANTIZED_H

#include "ops/lowered/lowering.h"

enum {
    ZT_MICROSOFT_BYTES = ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8),
};

/* scale (x - zero) of values; zero -1: none; `axis` is that of a vector of scales. */
int zt_lower_dequantize(struct zt_lowering *l, const int x_scale_zero[3], int axis);
/* Writes output 0: y / scale + zero of values, rounded, in the type of `zero`, or (-1: none) in `type`. */
void zt_lower_quantize(struct zt_lowering *l, int y, int scale, int zero, enum zt_dtype type);

#endif
