/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(conv_integer)                                                                                                  \
    ROW(dequantize)                                                                                                    \
    ROW(dequantize_10)                                                                                                 \
    ROW(dequantize_13)                                                                                                 \
    ROW(dequantize_19)                                                                                                 \
    ROW(dequantize_21)                                                                                                 \
    ROW(dequantize_23)                                                                                                 \
    ROW(dequantize_24)                                                                                                 \
    ROW(dynamic_quantize)                                                                                              \
    ROW(fake_quantize)                                                                                                 \
    ROW(fake_quantize_grad)                                                                                            \
    ROW(matmul_integer)                                                                                                \
    ROW(moving_range)                                                                                                  \
    ROW(qlinear_conv)                                                                                                  \
    ROW(qlinear_matmul)                                                                                                \
    ROW(qlinear_matmul_10)                                                                                             \
    ROW(quantize)                                                                                                      \
    ROW(quantize_10)                                                                                                   \
    ROW(quantize_13)                                                                                                   \
    ROW(quantize_19)                                                                                                   \
    ROW(quantize_21)                                                                                                   \
    ROW(quantize_23)                                                                                                   \
    ROW(quantize_24)                                                                                                   \
    ROW(range_over_ranks)                                                                                              \
    ROW(range_scale)

ZT_ROWS(quantize, ROWS)
