/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(batch_norm_activation)                                                                                         \
    ROW(batch_norm_activation_grad)                                                                                    \
    ROW(conv_add)                                                                                                      \
    ROW(conv_grad_input_add)                                                                                           \
    ROW(conv_relu)                                                                                                     \
    ROW(conv_relu_pool)                                                                                                \
    ROW(conv_relu_pool_grad)                                                                                           \
    ROW(gemm_relu)                                                                                                     \
    ROW(max_pool_relu_grad)

ZT_ROWS(fusion, ROWS)
