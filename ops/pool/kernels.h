/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_POOL_KERNELS_H
#define ZT_OPS_POOL_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_sum_pool_grad_function_body);
ZT_FUNCTION_BODY(zt_average_pool_grad_function_body);
ZT_FUNCTION_BODY(zt_max_pool_train_function_body);
ZT_FUNCTION_BODY(zt_max_pool_grad_function_body);
ZT_FUNCTION_BODY(zt_max_unpool_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_max_pool_cpu) /* MaxPool (without Indices), GlobalMaxPool, ztrain.MaxPoolTrain(x) -> y, position */
ZT_CPU_KERNEL(zt_max_pool_grad_cpu) /* ztrain.MaxPoolGrad, ztrain.MaxPoolReluGrad */
ZT_CPU_KERNEL(zt_sum_pool_cpu)      /* AveragePool, LpPool and their global forms */
ZT_CPU_KERNEL(zt_sum_pool_grad_cpu) /* ztrain.AveragePoolGrad, ztrain.SumPoolGrad */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_pool(KERNEL)                                                                                   \
    KERNEL(average_pool)                                                                                               \
    KERNEL(global_average_pool)                                                                                        \
    KERNEL(global_lp_pool)                                                                                             \
    KERNEL(global_max_pool)                                                                                            \
    KERNEL(lp_pool)                                                                                                    \
    KERNEL(max_pool)                                                                                                   \
    KERNEL(unpool)                                                                                                     \
    KERNEL(average_pool_grad)                                                                                          \
    KERNEL(max_pool_grad)                                                                                              \
    KERNEL(max_pool_train)                                                                                             \
    KERNEL(unpool_grad)                                                                                                \
    KERNEL(sum_pool_grad)
ZT_CUDA_KERNELS_pool(ZT_CUDA_ID)

#endif
