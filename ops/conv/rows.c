/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(col2im)                                                                                                        \
    ROW(conv)                                                                                                          \
    ROW(conv_activation)                                                                                               \
    ROW(conv_grad_input)                                                                                               \
    ROW(conv_grad_weight)                                                                                              \
    ROW(conv_transpose)                                                                                                \
    ROW(conv_transpose_grad_input)                                                                                     \
    ROW(conv_transpose_grad_weight)                                                                                    \
    ROW(im2col)

ZT_ROWS(conv, ROWS)
