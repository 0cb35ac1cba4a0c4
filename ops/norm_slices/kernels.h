/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_NORM_SLICES_KERNELS_H
#define ZT_OPS_NORM_SLICES_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: norm_slices_onnx.c */
ZT_FUNCTION_BODY(zt_lp_normalization_grad_function_body);
ZT_FUNCTION_BODY(zt_lrn_grad_function_body);
ZT_FUNCTION_BODY(zt_mean_variance_normalization_grad_function_body);

/* CPU kernel of all rows: norm_slices_cpu.c */
ZT_CPU_KERNEL(zt_norm_slices_cpu)

/* CUDA kernels: zt_kernel_ID_cuda in norm_slices_cuda.c */
/* clang-format off */
#define ZT_CUDA_KERNELS_norm_slices(KERNEL) \
    KERNEL(lp) \
    KERNEL(lrn) \
    KERNEL(lrn_grad) \
    KERNEL(mvn)
/* clang-format on */
ZT_CUDA_KERNELS_norm_slices(ZT_CUDA_ID)

#endif
