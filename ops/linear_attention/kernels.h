/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_LINEAR_ATTENTION_KERNELS_H
#define ZT_OPS_LINEAR_ATTENTION_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_linear_attention_grad_function_body);
ZT_FUNCTION_BODY(zt_causal_conv_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_linear_attention_cpu)      /* LinearAttention */
ZT_CPU_KERNEL(zt_linear_attention_grad_cpu) /* ztrain.LinearAttentionGrad */
ZT_CPU_KERNEL(zt_causal_conv_cpu)           /* CausalConvWithState */
ZT_CPU_KERNEL(zt_causal_conv_grad_cpu)      /* ztrain.CausalConvWithStateGrad */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_linear_attention(KERNEL)                                                                       \
    KERNEL(causal_conv)                                                                                                \
    KERNEL(causal_conv_grad)                                                                                           \
    KERNEL(linear_attention)                                                                                           \
    KERNEL(linear_attention_grad)
ZT_CUDA_KERNELS_linear_attention(ZT_CUDA_ID)

#endif
