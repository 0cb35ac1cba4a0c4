/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_NORM_KERNELS_H
#define ZT_OPS_NORM_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_norm_stats_function_body);
ZT_FUNCTION_BODY(zt_norm_grad_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_train_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_grad_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_fixed_grad_function_body);
ZT_FUNCTION_BODY(zt_batch_norm_old_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_batch_norm_cpu)
ZT_CPU_KERNEL(zt_batch_norm_grad_cpu)
ZT_CPU_KERNEL(zt_batch_norm_relu_cpu)       /* ztrain.BatchNormRelu, of planes */
ZT_CPU_KERNEL(zt_batch_norm_relu_grad_cpu)  /* ztrain.BatchNormReluGrad, of planes */
ZT_CPU_KERNEL(zt_batch_norm_activation_cpu) /* ztrain.BatchNormActivation, of planes */
ZT_CPU_KERNEL(zt_batch_norm_activation_grad_cpu)
ZT_CPU_KERNEL(zt_norm_cpu)       /* Layer-, RMS-, Instance-, GroupNormalization */
ZT_CPU_KERNEL(zt_norm_stats_cpu) /* ztrain.NormStats */
ZT_CPU_KERNEL(zt_norm_grad_cpu)  /* ztrain.NormGrad */
ZT_CPU_KERNEL(zt_norm_swish_cpu)
ZT_CPU_KERNEL(zt_norm_swish_grad_cpu)

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
/* clang-format off */
#define ZT_CUDA_KERNELS_norm(KERNEL) \
    KERNEL(batch_norm) \
    KERNEL(batch_norm_grad) \
    KERNEL(batch_norm_relu) \
    KERNEL(batch_norm_relu_grad) \
    KERNEL(batch_norm_statistics) \
    KERNEL(batch_norm_sync) \
    KERNEL(batch_norm_sync_grad) \
    KERNEL(norm) \
    KERNEL(norm_grad) \
    KERNEL(norm_stats)
/* clang-format on */
ZT_CUDA_KERNELS_norm(ZT_CUDA_ID)

#endif
