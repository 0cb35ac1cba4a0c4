/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(dynamic_quantize_matmul)                                                                                       \
    ROW(embed_layer_norm)                                                                                              \
    ROW(fused_conv)                                                                                                    \
    ROW(fused_gemm)                                                                                                    \
    ROW(fused_matmul)                                                                                                  \
    ROW(gather_block_quantized)                                                                                        \
    ROW(group_query_attention)                                                                                         \
    ROW(layer_norm_1)                                                                                                  \
    ROW(matmul_integer_to_float)                                                                                       \
    ROW(matmul_n_bits)                                                                                                 \
    ROW(microsoft_attention)                                                                                           \
    ROW(microsoft_bias_gelu)                                                                                           \
    ROW(microsoft_bias_softmax)                                                                                        \
    ROW(microsoft_bias_split_gelu)                                                                                     \
    ROW(microsoft_dequantize)                                                                                          \
    ROW(microsoft_fast_gelu)                                                                                           \
    ROW(microsoft_gelu)                                                                                                \
    ROW(microsoft_qlinear_conv)                                                                                        \
    ROW(microsoft_quantize)                                                                                            \
    ROW(microsoft_quick_gelu)                                                                                          \
    ROW(microsoft_range)                                                                                               \
    ROW(microsoft_rotary_embedding)                                                                                    \
    ROW(multi_head_attention)                                                                                          \
    ROW(nchwc_average_pool)                                                                                            \
    ROW(nchwc_conv)                                                                                                    \
    ROW(nchwc_global_average_pool)                                                                                     \
    ROW(nchwc_global_max_pool)                                                                                         \
    ROW(nchwc_max_pool)                                                                                                \
    ROW(nchwc_reorder_input)                                                                                           \
    ROW(nchwc_reorder_output)                                                                                          \
    ROW(nchwc_upsample)                                                                                                \
    ROW(nhwc_max_pool)                                                                                                 \
    ROW(qlinear_add)                                                                                                   \
    ROW(qlinear_average_pool)                                                                                          \
    ROW(qlinear_concat)                                                                                                \
    ROW(qlinear_global_average_pool)                                                                                   \
    ROW(qlinear_leaky_relu)                                                                                            \
    ROW(qlinear_mul)                                                                                                   \
    ROW(qlinear_sigmoid)                                                                                               \
    ROW(qlinear_softmax)                                                                                               \
    ROW(qlinear_where)                                                                                                 \
    ROW(quantized_attention)                                                                                           \
    ROW(quantized_gemm)                                                                                                \
    ROW(simplified_layer_norm)                                                                                         \
    ROW(skip_layer_norm)                                                                                               \
    ROW(skip_simplified_layer_norm)                                                                                    \
    ROW(transpose_matmul)

ZT_ROWS(microsoft, ROWS)
