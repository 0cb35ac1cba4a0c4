/* Inside the CUDA module: its kernels, and the list of them (table.c). */
#ifndef ZT_OPS_CUDA_KERNELS_H
#define ZT_OPS_CUDA_KERNELS_H

#include "device/module.h"
#include "graph/ir/op.h"

extern const struct zt_kernel zt_kernel_attention_cuda; /* attention_cuda.c: Attention, AttentionTrain, packed or not */
extern const struct zt_kernel zt_kernel_attention_grad_cuda;
extern const struct zt_kernel zt_kernel_conv_cuda;   /* conv_cuda.c: Conv, ConvTranspose, their gradients */
extern const struct zt_kernel zt_kernel_matmul_cuda; /* matmul_cuda.c: MatMul, BatchMatMul, Gemm, GemmFloat, Linear */
extern const struct zt_kernel zt_kernel_linear_gelu_cuda; /* linear_gelu_cuda.c */
extern const struct zt_kernel zt_kernel_linear_gelu_grad_cuda;
extern const struct zt_kernel zt_kernel_linear_relu_cuda;
extern const struct zt_kernel zt_kernel_linear_relu_grad_cuda;
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
extern const struct zt_kernel zt_kernel_pointwise_cuda;      /* pointwise_cuda.c */
extern const struct zt_kernel zt_kernel_strided_copies_cuda; /* copies_cuda.c */
extern const struct zt_kernel zt_kernel_reorder_cuda;        /* layout_cuda.c */
extern const struct zt_kernel zt_kernel_reduce_cuda;         /* reduce_cuda.c */
extern const struct zt_kernel zt_kernel_batch_norm_cuda;     /* batch_norm_cuda.c */
extern const struct zt_kernel zt_kernel_batch_norm_grad_cuda;
extern const struct zt_kernel zt_kernel_batch_norm_relu_cuda;
extern const struct zt_kernel zt_kernel_batch_norm_relu_grad_cuda;
extern const struct zt_kernel zt_kernel_batch_norm_statistics_cuda;
extern const struct zt_kernel zt_kernel_batch_norm_sync_cuda;
extern const struct zt_kernel zt_kernel_batch_norm_sync_grad_cuda;
extern const struct zt_kernel zt_kernel_rotary_cuda; /* rotary_cuda.c */
extern const struct zt_kernel zt_kernel_rotary_cache_grad_cuda;
extern const struct zt_kernel zt_kernel_norm_cuda; /* norm_cuda.c */
extern const struct zt_kernel zt_kernel_norm_stats_cuda;
extern const struct zt_kernel zt_kernel_norm_grad_cuda;
extern const struct zt_kernel zt_kernel_lrn_cuda; /* norm_slices_cuda.c */
extern const struct zt_kernel zt_kernel_lrn_grad_cuda;
extern const struct zt_kernel zt_kernel_mvn_cuda; /* the gradient too */
/* random_cuda.c: RandomUniform, RandomNormal, their Like, Bernoulli */
extern const struct zt_kernel zt_kernel_draws_cuda;
extern const struct zt_kernel zt_kernel_multinomial_cuda;
extern const struct zt_kernel zt_kernel_dropout_cuda;
extern const struct zt_kernel zt_kernel_einsum_cuda;      /* einsum_cuda.c: the gradient too */
extern const struct zt_kernel zt_kernel_grid_sample_cuda; /* sample_cuda.c */
extern const struct zt_kernel zt_kernel_grid_sample_grad_cuda;
extern const struct zt_kernel zt_kernel_affine_grid_cuda;
extern const struct zt_kernel zt_kernel_affine_grid_grad_cuda;
extern const struct zt_kernel zt_kernel_im2col_cuda; /* columns_cuda.c */
extern const struct zt_kernel zt_kernel_col2im_cuda;
extern const struct zt_kernel zt_kernel_unpool_cuda;
extern const struct zt_kernel zt_kernel_unpool_grad_cuda;
/* rows_cuda.c */
extern const struct zt_kernel zt_kernel_reverse_cuda;
extern const struct zt_kernel zt_kernel_top_k_cuda;
extern const struct zt_kernel zt_kernel_softmax_cuda;
extern const struct zt_kernel zt_kernel_lp_cuda;
extern const struct zt_kernel zt_kernel_extreme_cuda;
extern const struct zt_kernel zt_kernel_cumulate_cuda;
extern const struct zt_kernel zt_kernel_count_correct_cuda;
extern const struct zt_kernel zt_kernel_pad_cuda;
extern const struct zt_kernel zt_kernel_pad_grad_cuda;
extern const struct zt_kernel zt_kernel_triangle_cuda;
extern const struct zt_kernel zt_kernel_one_hot_cuda;
extern const struct zt_kernel zt_kernel_gather_cuda;
extern const struct zt_kernel zt_kernel_gather_grad_cuda;
extern const struct zt_kernel zt_kernel_gather_elements_cuda;
extern const struct zt_kernel zt_kernel_gather_elements_grad_cuda;
extern const struct zt_kernel zt_kernel_scatter_elements_cuda;
extern const struct zt_kernel zt_kernel_gather_tuples_cuda;
extern const struct zt_kernel zt_kernel_gather_tuples_grad_cuda;
extern const struct zt_kernel zt_kernel_scatter_tuples_cuda;
extern const struct zt_kernel zt_kernel_class_loss_cuda; /* loss_cuda.c */
extern const struct zt_kernel zt_kernel_class_loss_grad_cuda;
extern const struct zt_kernel zt_kernel_class_loss_train_cuda;
extern const struct zt_kernel zt_kernel_element_loss_cuda;
extern const struct zt_kernel zt_kernel_element_loss_grad_cuda;

extern const struct zt_module_kernel zt_kernels_cuda[]; /* ends with a NULL name */

#endif
