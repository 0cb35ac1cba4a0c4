/* Fusion patterns in the order in which they are tried; a row is written in a fuse_*.c, which holds its kernel where it
 * has one of its own. */
#include "ops/table.h"

#include <stddef.h>

/* Those of the forward graph: softmax before what stands on it; attention_heads before transpose, which would move its
 * Transposes, and before attention_packed, which takes what it made; transpose before conv_bias, whose nodes it brings
 * together; gemm after what looks for MatMul. */
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
    ROW(conv_bias)                                                                                                     \
    ROW(gemm)                                                                                                          \
    ROW(slices)
/* Those of the training graph: conv_relu_pool takes what the two before it made, half_propagation clears the way for
 * CUDA's, and once more where bias_grad took away what read in float; linear_bias before linear_add and linear_relu,
 * which take what it made; fused_elementwise takes what is left. Four of CUDA have the names of the CPU's. */
#define TRAINING(ROW)                                                                                                  \
    ROW(norm_swish)                                                                                                    \
    ROW(batch_norm_activation)                                                                                         \
    ROW(pool_relu_grad)                                                                                                \
    ROW(conv_relu)                                                                                                     \
    ROW(conv_relu_pool)                                                                                                \
    ROW(conv_relu_pool_grad)                                                                                           \
    ROW(gemm_relu)                                                                                                     \
    ROW(conv_activation)                                                                                               \
    ROW(half_propagation)                                                                                              \
    ROW(pool_relu_grad_cuda)                                                                                           \
    ROW(conv_relu_cuda)                                                                                                \
    ROW(linear_gelu)                                                                                                   \
    ROW(linear_gelu_grad)                                                                                              \
    ROW(conv_float)                                                                                                    \
    ROW(batch_norm_relu)                                                                                               \
    ROW(batch_norm_relu_grad)                                                                                          \
    ROW(batch_norm_relu_cuda)                                                                                          \
    ROW(batch_norm_relu_grad_cuda)                                                                                     \
    ROW(batch_norm_statistics)                                                                                         \
    ROW(conv_add)                                                                                                      \
    ROW(gemm_float)                                                                                                    \
    ROW(bias_grad)                                                                                                     \
    ROW(half_propagation)                                                                                              \
    ROW(cross_entropy)                                                                                                 \
    ROW(padded_classes)                                                                                                \
    ROW(linear_bias)                                                                                                   \
    ROW(linear_add)                                                                                                    \
    ROW(linear_relu)                                                                                                   \
    ROW(fused_elementwise)

#define DECLARE(name) extern const struct zt_pattern zt_pattern_##name;
FORWARD(DECLARE)
TRAINING(DECLARE)

#define ADDRESS(name) &zt_pattern_##name,
const struct zt_pattern *const zt_patterns[] = { FORWARD(ADDRESS) TRAINING(ADDRESS) NULL };
