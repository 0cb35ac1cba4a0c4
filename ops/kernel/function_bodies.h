/* What rows mean in standard operators, in ops/body_*.c: a function a row (graph/export/function_body.h), named in the
 * row's `.body`.
 */
#ifndef ZT_OPS_KERNEL_FUNCTION_BODIES_H
#define ZT_OPS_KERNEL_FUNCTION_BODIES_H

#include "graph/export/function_body.h"

#define ZT_FUNCTION_BODY(name)                                                                                         \
    bool name(struct zt_function_body *b, const struct zt_graph *g, int node, struct zt_err *err)

/* elementwise_onnx.c */
ZT_FUNCTION_BODY(zt_gelu_grad_function_body);
ZT_FUNCTION_BODY(zt_clip_grad_function_body);
ZT_FUNCTION_BODY(zt_dropout_grad_function_body);

/* conv_onnx.c */
ZT_FUNCTION_BODY(zt_conv_grad_input_function_body);
ZT_FUNCTION_BODY(zt_conv_grad_weight_function_body);
ZT_FUNCTION_BODY(zt_conv_transpose_grad_input_function_body);
ZT_FUNCTION_BODY(zt_conv_transpose_grad_weight_function_body);

/* pool_onnx.c */
ZT_FUNCTION_BODY(zt_max_pool_train_function_body);
ZT_FUNCTION_BODY(zt_max_pool_grad_function_body);
ZT_FUNCTION_BODY(zt_average_pool_grad_function_body);
ZT_FUNCTION_BODY(zt_sum_pool_grad_function_body);

/* norm_onnx.c */
ZT_FUNCTION_BODY(zt_softmax_function_body);
ZT_FUNCTION_BODY(zt_softmax_grad_function_body);
ZT_FUNCTION_BODY(zt_log_softmax_grad_function_body);
ZT_FUNCTION_BODY(zt_cross_entropy_grad_function_body);
ZT_FUNCTION_BODY(zt_negative_log_likelihood_grad_function_body);
ZT_FUNCTION_BODY(zt_norm_stats_function_body);
ZT_FUNCTION_BODY(zt_norm_grad_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_train_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_grad_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_fixed_grad_function_body);
ZT_FUNCTION_BODY(zt_lp_normalization_grad_function_body);
ZT_FUNCTION_BODY(zt_lrn_grad_function_body);
ZT_FUNCTION_BODY(zt_mean_variance_normalization_grad_function_body);

/* einsum_onnx.c */
ZT_FUNCTION_BODY(zt_einsum_grad_function_body);

/* movement_onnx.c */
ZT_FUNCTION_BODY(zt_gather_grad_function_body);
ZT_FUNCTION_BODY(zt_gather_elements_grad_function_body);
ZT_FUNCTION_BODY(zt_gather_nd_grad_function_body);
ZT_FUNCTION_BODY(zt_slice_grad_function_body);
ZT_FUNCTION_BODY(zt_pad_grad_function_body);
ZT_FUNCTION_BODY(zt_tile_grad_function_body);
ZT_FUNCTION_BODY(zt_im2col_function_body);
ZT_FUNCTION_BODY(zt_max_unpool_grad_function_body);
ZT_FUNCTION_BODY(zt_batch_matmul_function_body);
ZT_FUNCTION_BODY(zt_pow_slope_function_body);
ZT_FUNCTION_BODY(zt_pow_log_function_body);

/* attention_onnx.c */
ZT_FUNCTION_BODY(zt_attention_grad_function_body);
ZT_FUNCTION_BODY(zt_rotary_cache_grad_function_body);

/* sample_onnx.c; the second: Upsample, and Resize of opset 10 */
ZT_FUNCTION_BODY(zt_resize_grad_function_body);
ZT_FUNCTION_BODY(zt_resize_old_function_body);
ZT_FUNCTION_BODY(zt_affine_grid_grad_function_body);
ZT_FUNCTION_BODY(zt_grid_sample_grad_function_body);

/* old_forms_onnx.c */
ZT_FUNCTION_BODY(zt_same_opset_form_body);
ZT_FUNCTION_BODY(zt_axes_old_function_body);
ZT_FUNCTION_BODY(zt_split_old_function_body);
ZT_FUNCTION_BODY(zt_slice_old_function_body);
ZT_FUNCTION_BODY(zt_top_k_old_function_body);
ZT_FUNCTION_BODY(zt_pad_old_function_body);
ZT_FUNCTION_BODY(zt_clip_old_function_body);
ZT_FUNCTION_BODY(zt_dropout_old_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_old_function_body);

/* Rows of unary functions: the text of op NameGrad, with `a` and `b` its first two attributes. */
bool zt_unary_function_body(struct zt_function_body *b, const struct zt_graph *g, int node, const double parameters[2]);

#endif
