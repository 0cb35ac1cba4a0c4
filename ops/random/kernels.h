/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_RANDOM_KERNELS_H
#define ZT_OPS_RANDOM_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_dropout_old_function_body);
ZT_FUNCTION_BODY(zt_dropout_grad_function_body);

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_random(KERNEL)                                                                                 \
    KERNEL(draws)                                                                                                      \
    KERNEL(multinomial)                                                                                                \
    KERNEL(dropout)
ZT_CUDA_KERNELS_random(ZT_CUDA_ID)

#endif
