/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(absolute_error)                                                                                                \
    ROW(absolute_error_grad)                                                                                           \
    ROW(binary_cross_entropy)                                                                                          \
    ROW(binary_cross_entropy_grad)                                                                                     \
    ROW(count_correct)                                                                                                 \
    ROW(cross_entropy)                                                                                                 \
    ROW(cross_entropy_grad)                                                                                            \
    ROW(cross_entropy_train)                                                                                           \
    ROW(huber)                                                                                                         \
    ROW(huber_grad)                                                                                                    \
    ROW(negative_log_likelihood)                                                                                       \
    ROW(negative_log_likelihood_grad)                                                                                  \
    ROW(negative_log_likelihood_loss)                                                                                  \
    ROW(smooth_absolute_error)                                                                                         \
    ROW(smooth_absolute_error_grad)                                                                                    \
    ROW(soft_cross_entropy)                                                                                            \
    ROW(soft_cross_entropy_grad)                                                                                       \
    ROW(softmax_cross_entropy_loss)                                                                                    \
    ROW(squared_error)                                                                                                 \
    ROW(squared_error_grad)

ZT_ROWS(loss, ROWS)
