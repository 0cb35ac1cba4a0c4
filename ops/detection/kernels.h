/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_DETECTION_KERNELS_H
#define ZT_OPS_DETECTION_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_deform_conv_grad_input_function_body);
ZT_FUNCTION_BODY(zt_deform_conv_grad_weight_function_body);
ZT_FUNCTION_BODY(zt_roi_align_10_function_body);
ZT_FUNCTION_BODY(zt_roi_align_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_deform_conv_cpu)             /* DeformConv */
ZT_CPU_KERNEL(zt_deform_conv_grad_input_cpu)  /* ztrain.DeformConvGradInput */
ZT_CPU_KERNEL(zt_deform_conv_grad_weight_cpu) /* ztrain.DeformConvGradWeight */
ZT_CPU_KERNEL(zt_roi_align_cpu)               /* RoiAlign */
ZT_CPU_KERNEL(zt_roi_align_grad_cpu)          /* ztrain.RoiAlignGrad */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_detection(KERNEL)                                                                              \
    KERNEL(deform_conv)                                                                                                \
    KERNEL(deform_conv_grad_input)                                                                                     \
    KERNEL(deform_conv_grad_weight)                                                                                    \
    KERNEL(roi_align)                                                                                                  \
    KERNEL(roi_align_grad)
ZT_CUDA_KERNELS_detection(ZT_CUDA_ID)

#endif
