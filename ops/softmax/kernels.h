/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_SOFTMAX_KERNELS_H
#define ZT_OPS_SOFTMAX_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_softmax_function_body);
ZT_FUNCTION_BODY(zt_softmax_grad_function_body);
ZT_FUNCTION_BODY(zt_log_softmax_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_softmax_cpu) /* Softmax, LogSoftmax and their gradients */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_softmax(KERNEL) KERNEL(softmax)
ZT_CUDA_KERNELS_softmax(ZT_CUDA_ID)

#endif
