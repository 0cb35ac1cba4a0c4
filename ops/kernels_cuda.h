/* Inside the CUDA module: its kernels, and the list of them (table_cuda.c). */
#ifndef ZT_OPS_KERNELS_CUDA_H
#define ZT_OPS_KERNELS_CUDA_H

#include "device/module.h"
#include "graph/op.h"

extern const struct zt_kernel zt_kernel_attention_cuda; /* attention_cuda.c: Attention, AttentionTrain */
extern const struct zt_kernel zt_kernel_attention_grad_cuda;
extern const struct zt_kernel zt_kernel_conv_cuda;   /* conv_cuda.c: Conv, ConvTranspose, their gradients */
extern const struct zt_kernel zt_kernel_matmul_cuda; /* matmul_cuda.c: MatMul, BatchMatMul, Gemm */
extern const struct zt_kernel zt_kernel_relu_cuda;   /* elementwise_cuda.c */
extern const struct zt_kernel zt_kernel_relu_grad_cuda;
extern const struct zt_kernel zt_kernel_add_cuda;
extern const struct zt_kernel zt_kernel_cast_cuda;
extern const struct zt_kernel zt_kernel_reduce_sum_cuda;    /* reduce_cuda.c */
extern const struct zt_kernel zt_kernel_cross_entropy_cuda; /* loss_cuda.c */
extern const struct zt_kernel zt_kernel_cross_entropy_grad_cuda;
extern const struct zt_kernel zt_kernel_max_pool_cuda; /* pool_cuda.c */
extern const struct zt_kernel zt_kernel_max_pool_train_cuda;
extern const struct zt_kernel zt_kernel_average_pool_cuda;
extern const struct zt_kernel zt_kernel_lp_pool_cuda;
extern const struct zt_kernel zt_kernel_global_max_pool_cuda;
extern const struct zt_kernel zt_kernel_global_average_pool_cuda;
extern const struct zt_kernel zt_kernel_global_lp_pool_cuda;
extern const struct zt_kernel zt_kernel_max_pool_grad_cuda;
extern const struct zt_kernel zt_kernel_average_pool_grad_cuda;
extern const struct zt_kernel zt_kernel_sum_pool_grad_cuda;
extern const struct zt_kernel zt_kernel_resize_cuda; /* resize_cuda.c: Resize, Upsample */
extern const struct zt_kernel zt_kernel_resize_grad_cuda;
extern const struct zt_kernel zt_kernel_rnn_cuda; /* recurrent_cuda.c: RNN, RNNTrain, and so on */
extern const struct zt_kernel zt_kernel_rnn_grad_cuda;
extern const struct zt_kernel zt_kernel_lstm_cuda;
extern const struct zt_kernel zt_kernel_lstm_grad_cuda;
extern const struct zt_kernel zt_kernel_gru_cuda;
extern const struct zt_kernel zt_kernel_gru_grad_cuda;

extern const struct zt_module_kernel zt_kernels_cuda[]; /* ends with a NULL name */

#endif
