/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_RESAMPLE_KERNELS_H
#define ZT_OPS_RESAMPLE_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_resize_grad_function_body);
ZT_FUNCTION_BODY(zt_resize_old_function_body);
ZT_FUNCTION_BODY(zt_affine_grid_grad_function_body);
ZT_FUNCTION_BODY(zt_grid_sample_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_grid_sample_cpu)      /* GridSample */
ZT_CPU_KERNEL(zt_grid_sample_grad_cpu) /* ztrain.GridSampleGrad */
ZT_CPU_KERNEL(zt_resize_cpu)           /* Resize, Upsample */
ZT_CPU_KERNEL(zt_resize_grad_cpu)      /* ztrain.ResizeGrad */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_resample(KERNEL)                                                                               \
    KERNEL(affine_grid)                                                                                                \
    KERNEL(grid_sample)                                                                                                \
    KERNEL(resize)                                                                                                     \
    KERNEL(affine_grid_grad)                                                                                           \
    KERNEL(grid_sample_grad)                                                                                           \
    KERNEL(resize_grad)
ZT_CUDA_KERNELS_resample(ZT_CUDA_ID)

#endif
