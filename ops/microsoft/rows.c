/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(embed_layer_norm)                                                                                              \
    ROW(fused_conv)                                                                                                    \
    ROW(fused_gemm)                                                                                                    \
    ROW(fused_matmul)                                                                                                  \
    ROW(group_query_attention)                                                                                         \
    ROW(layer_norm_1)                                                                                                  \
    ROW(microsoft_attention)                                                                                           \
    ROW(microsoft_bias_gelu)                                                                                           \
    ROW(microsoft_bias_softmax)                                                                                        \
    ROW(microsoft_bias_split_gelu)                                                                                     \
    ROW(microsoft_fast_gelu)                                                                                           \
    ROW(microsoft_gelu)                                                                                                \
    ROW(microsoft_quick_gelu)                                                                                          \
    ROW(microsoft_range)                                                                                               \
    ROW(microsoft_rotary_embedding)                                                                                    \
    ROW(multi_head_attention)                                                                                          \
    ROW(simplified_layer_norm)                                                                                         \
    ROW(skip_layer_norm)                                                                                               \
    ROW(skip_simplified_layer_norm)                                                                                    \
    ROW(transpose_matmul)

ZT_ROWS(microsoft, ROWS)
