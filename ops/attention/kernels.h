/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_ATTENTION_KERNELS_H
#define ZT_OPS_ATTENTION_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_attention_grad_function_body);
ZT_FUNCTION_BODY(zt_rotary_cache_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_attention_cpu)      /* Attention (y alone), ztrain.AttentionTrain */
ZT_CPU_KERNEL(zt_attention_grad_cpu) /* ztrain.AttentionGrad of a training form */
bool zt_attention_cpu_prefers_float(const struct zt_graph *g, int node); /* of the two */
ZT_CPU_KERNEL(zt_rotary_cpu)                                             /* RotaryEmbedding */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_attention(KERNEL)                                                                              \
    KERNEL(attention)                                                                                                  \
    KERNEL(rotary)                                                                                                     \
    KERNEL(attention_grad)                                                                                             \
    KERNEL(rotary_cache_grad)
ZT_CUDA_KERNELS_attention(ZT_CUDA_ID)

#endif
