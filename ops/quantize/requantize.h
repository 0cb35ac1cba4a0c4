/* Products of quantized tensors. Operands are made doubles less their zero points, which is exact; so are the sums of
 * their products, whose reference kernels are those of MatMul and Conv. Results of the integer operators wrap to 32
 * bits, those of the quantized ones are rounded again:
 *
 *     y = clip(round(sum * (a_scale * b_scale / y_scale)) + y_zero_point)
 *
 * The factor is computed in the type of the scales. */
#ifndef ZT_OPS_QUANTIZE_REQUANTIZE_H
#define ZT_OPS_QUANTIZE_REQUANTIZE_H

#include "graph/ir/op.h"

/* An operand: its inputs by number, -1: none. */
struct zt_quantized_in {
    int at, scale, zero;
};

/* Whether a scale or zero point (input `in`, which may be omitted) fits an operand of shape `of`: one number, numbers
 * that broadcast to it, or a vector with a number for each index of its axis `axis`. */
bool zt_quantized_fits(const struct zt_graph *g, int node, int in, const struct zt_shape *of, int axis,
                       struct zt_err *err);
/* Strides of input `in` of a call over the elements of `of`, which fits; all 0 for one number. */
void zt_quantized_steps(const struct zt_view *v, const struct zt_shape *of, int axis, int64_t step[ZT_MAX_RANK]);

/* to[i] = element i of the operand, less its zero point. */
void zt_quantized_center(const struct zt_call *call, struct zt_quantized_in in, int axis, double *to);

/* The scales and the zero point of a result, of inputs `scale` and `zero`: one number each. */
bool zt_quantized_out(const struct zt_graph *g, int node, int scale, int zero, struct zt_err *err);

/* The numbers of a result that is rounded again. */
struct zt_requantize {
    const struct zt_call *call;
    int scales[2], out_scale, out_zero; /* inputs */
    double added;                       /* to each sum: a bias */
};
/* Stores sum as element `index` of output 0; `at`: elements of the two operands' scales. */
void zt_requantize(const struct zt_requantize *r, double sum, const int64_t at[2], int64_t index);
/* The same of a row of integers, for scales of float and results of 8 bits: elements index.., `step` from one scale to
 * the next. */
void zt_requantize_row(const struct zt_requantize *r, const int32_t *sum, int64_t count, const int64_t at[2],
                       const int64_t step[2], int64_t index);
/* Stores sums that wrap to int32. */
void zt_store_wrapped(const struct zt_call *call, const double *sum);

#endif
