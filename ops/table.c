/* Every operator row, one line each, by name. A row is `zt_op_NAME` of the file that holds its family. */
#include "ops/table.h"

#include <stddef.h>

#define ROWS(ROW)                                                                                                      \
    ROW(absolute_error)                                                                                                \
    ROW(absolute_error_grad)                                                                                           \
    ROW(average_pool)                                                                                                  \
    ROW(average_pool_grad)                                                                                             \
    ROW(batch_matmul)                                                                                                  \
    ROW(batch_norm_fixed_grad)                                                                                         \
    ROW(batch_norm_grad)                                                                                               \
    ROW(batch_norm_train)                                                                                              \
    ROW(batch_normalization)                                                                                           \
    ROW(batch_normalization_7)                                                                                         \
    ROW(binary_cross_entropy)                                                                                          \
    ROW(binary_cross_entropy_grad)                                                                                     \
    ROW(conv)                                                                                                          \
    ROW(conv_grad_input)                                                                                               \
    ROW(conv_grad_weight)                                                                                              \
    ROW(conv_transpose)                                                                                                \
    ROW(conv_transpose_grad_input)                                                                                     \
    ROW(conv_transpose_grad_weight)                                                                                    \
    ROW(count_correct)                                                                                                 \
    ROW(cross_entropy)                                                                                                 \
    ROW(cross_entropy_grad)                                                                                            \
    ROW(gemm)                                                                                                          \
    ROW(global_average_pool)                                                                                           \
    ROW(global_lp_pool)                                                                                                \
    ROW(global_max_pool)                                                                                               \
    ROW(hardmax)                                                                                                       \
    ROW(huber)                                                                                                         \
    ROW(huber_grad)                                                                                                    \
    ROW(log_softmax)                                                                                                   \
    ROW(log_softmax_grad)                                                                                              \
    ROW(lp_pool)                                                                                                       \
    ROW(matmul)                                                                                                        \
    ROW(max_pool)                                                                                                      \
    ROW(max_pool_grad)                                                                                                 \
    ROW(max_pool_train)                                                                                                \
    ROW(negative_log_likelihood)                                                                                       \
    ROW(negative_log_likelihood_grad)                                                                                  \
    ROW(negative_log_likelihood_loss)                                                                                  \
    ROW(reorder)                                                                                                       \
    ROW(smooth_absolute_error)                                                                                         \
    ROW(smooth_absolute_error_grad)                                                                                    \
    ROW(softmax)                                                                                                       \
    ROW(softmax_cross_entropy_loss)                                                                                    \
    ROW(softmax_grad)                                                                                                  \
    ROW(squared_error)                                                                                                 \
    ROW(squared_error_grad)                                                                                            \
    ROW(sum_pool_grad)

#define DECLARE(name) extern const struct zt_op zt_op_##name;
#define ADDRESS(name) &zt_op_##name,

ROWS(DECLARE)

static const struct zt_op *const rows[] = { ROWS(ADDRESS) NULL };
const struct zt_op_table zt_ops = { rows };
