/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_MATMUL_KERNELS_H
#define ZT_OPS_MATMUL_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_einsum_grad_function_body);
ZT_FUNCTION_BODY(zt_batch_matmul_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_einsum_cpu)      /* Einsum of two operands */
ZT_CPU_KERNEL(zt_einsum_grad_cpu) /* ztrain.EinsumGrad */
ZT_CPU_KERNEL(zt_gemm_float_cpu)  /* ztrain.GemmFloat of bfloat16 with op(a) transposed */
ZT_CPU_KERNEL(zt_matmul_cpu)      /* MatMul, Gemm, and ztrain's BatchMatMul, GemmMaster, GemmRelu: in every build */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_matmul(KERNEL)                                                                                 \
    KERNEL(einsum)                                                                                                     \
    KERNEL(matmul)                                                                                                     \
    KERNEL(linear_gelu)                                                                                                \
    KERNEL(linear_relu)                                                                                                \
    KERNEL(linear_gelu_grad)                                                                                           \
    KERNEL(linear_relu_grad)
ZT_CUDA_KERNELS_matmul(ZT_CUDA_ID)

#endif
