/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_RECURRENT_KERNELS_H
#define ZT_OPS_RECURRENT_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_recurrent(KERNEL)                                                                              \
    KERNEL(gru)                                                                                                        \
    KERNEL(lstm)                                                                                                       \
    KERNEL(rnn)                                                                                                        \
    KERNEL(gru_grad)                                                                                                   \
    KERNEL(lstm_grad)                                                                                                  \
    KERNEL(rnn_grad)
ZT_CUDA_KERNELS_recurrent(ZT_CUDA_ID)

#endif
