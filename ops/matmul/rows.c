/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(batch_matmul)                                                                                                  \
    ROW(det)                                                                                                           \
    ROW(det_grad)                                                                                                      \
    ROW(einsum)                                                                                                        \
    ROW(einsum_grad)                                                                                                   \
    ROW(gemm)                                                                                                          \
    ROW(gemm_float)                                                                                                    \
    ROW(gemm_master)                                                                                                   \
    ROW(linear)                                                                                                        \
    ROW(linear_gelu)                                                                                                   \
    ROW(linear_relu)                                                                                                   \
    ROW(matmul)                                                                                                        \
    ROW(matmul_gelu_grad)                                                                                              \
    ROW(matmul_relu_grad)

ZT_ROWS(matmul, ROWS)
