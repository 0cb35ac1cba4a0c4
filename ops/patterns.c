/* Fusion patterns in the order in which they are tried. The file of a pattern defines its row, and its fused operator
 * if it has one of its own. */
#include "ops/table.h"

#include <stddef.h>

/* Patterns of the forward graph. softmax comes before the patterns that contain a Softmax; attention_heads comes before
 * transpose, which would move its Transposes, and before attention_packed, which matches its nodes; transpose comes
 * before conv_pad, conv_scale and conv_bias, whose nodes it makes adjacent; conv_scale comes before conv_bias, which
 * adds what stands behind it; gemm comes after the patterns that match MatMul. */
#define FORWARD(ROW)                                                                                                   \
    ROW(gelu)                                                                                                          \
    ROW(hard_swish)                                                                                                    \
    ROW(softplus)                                                                                                      \
    ROW(mish)                                                                                                          \
    ROW(swish)                                                                                                         \
    ROW(layer_norm)                                                                                                    \
    ROW(rms_norm)                                                                                                      \
    ROW(group_norm)                                                                                                    \
    ROW(softmax)                                                                                                       \
    ROW(log_softmax)                                                                                                   \
    ROW(softmax_loss)                                                                                                  \
    ROW(attention)                                                                                                     \
    ROW(attention_heads)                                                                                               \
    ROW(attention_packed)                                                                                              \
    ROW(transpose)                                                                                                     \
    ROW(conv_pad)                                                                                                      \
    ROW(conv_scale)                                                                                                    \
    ROW(conv_bias)                                                                                                     \
    ROW(gemm)                                                                                                          \
    ROW(einsum)                                                                                                        \
    ROW(einsum_axes)                                                                                                   \
    ROW(sinc)                                                                                                          \
    ROW(slices)
/* Patterns of the training graph. conv_relu_pool and conv_relu_pool_grad match nodes of conv_relu, pool_relu_grad and
 * conv_float. half_propagation removes the casts that would hide matches of the other CUDA patterns; it is tried again
 * after bias_grad, which removes readers in fp32. linear_bias comes before linear_add and linear_relu, which match its
 * nodes; fused_elementwise takes the remaining nodes. */
#define TRAINING(ROW)                                                                                                  \
    ROW(half_propagation)                                                                                              \
    ROW(shuffle_channels)                                                                                              \
    ROW(norm_swish)                                                                                                    \
    ROW(batch_norm_activation)                                                                                         \
    ROW(pool_relu_grad)                                                                                                \
    ROW(conv_relu)                                                                                                     \
    ROW(linear_gelu)                                                                                                   \
    ROW(linear_gelu_grad)                                                                                              \
    ROW(conv_float)                                                                                                    \
    ROW(conv_relu_pool)                                                                                                \
    ROW(conv_relu_pool_grad)                                                                                           \
    ROW(gemm_relu)                                                                                                     \
    ROW(conv_activation)                                                                                               \
    ROW(batch_norm_relu)                                                                                               \
    ROW(batch_norm_relu_grad)                                                                                          \
    ROW(batch_norm_relu_recomputed)                                                                                    \
    ROW(batch_norm_statistics)                                                                                         \
    ROW(conv_add)                                                                                                      \
    ROW(gemm_float)                                                                                                    \
    ROW(bias_grad)                                                                                                     \
    ROW(half_propagation)                                                                                              \
    ROW(gemm_master)                                                                                                   \
    ROW(cross_entropy)                                                                                                 \
    ROW(padded_classes)                                                                                                \
    ROW(extreme_grad)                                                                                                  \
    ROW(ranges)                                                                                                        \
    ROW(linear_bias)                                                                                                   \
    ROW(linear_add)                                                                                                    \
    ROW(linear_relu)                                                                                                   \
    ROW(fused_elementwise)

#define DECLARE(name) extern const struct zt_pattern zt_pattern_##name;
FORWARD(DECLARE)
TRAINING(DECLARE)

#define ADDRESS(name) &zt_pattern_##name,
const struct zt_pattern *const zt_patterns[] = { FORWARD(ADDRESS) TRAINING(ADDRESS) NULL };
