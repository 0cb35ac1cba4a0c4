/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_CONV_KERNELS_H
#define ZT_OPS_CONV_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_conv_grad_input_function_body);
ZT_FUNCTION_BODY(zt_conv_transpose_grad_input_function_body);
ZT_FUNCTION_BODY(zt_conv_grad_weight_function_body);
ZT_FUNCTION_BODY(zt_conv_transpose_grad_weight_function_body);
ZT_FUNCTION_BODY(zt_im2col_function_body);

/* CPU kernels: *_cpu.c */
/* Of all rows below (struct zt_kernel). */
double zt_conv_cpu_share(const struct zt_graph *g, int node);
bool zt_conv_cpu_prefers_float(const struct zt_graph *g, int node);
ZT_CPU_KERNEL(zt_conv_cpu)                       /* Conv(x, w[, b]) -> y; ztrain.ConvRelu, ConvActivation, ConvAdd */
ZT_CPU_KERNEL(zt_conv_grad_input_cpu)            /* ztrain.ConvGradInput(w, dy) -> dx; ConvGradInputAdd */
ZT_CPU_KERNEL(zt_conv_grad_weight_cpu)           /* ztrain.ConvGradWeight(x, dy) -> dw[, db] */
ZT_CPU_KERNEL(zt_conv_transpose_cpu)             /* ConvTranspose(y, w[, b]) -> x */
ZT_CPU_KERNEL(zt_conv_transpose_grad_input_cpu)  /* ztrain.ConvTransposeGradInput(w, dx) -> dy */
ZT_CPU_KERNEL(zt_conv_transpose_grad_weight_cpu) /* ztrain.ConvTransposeGradWeight(y, dx) -> dw */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_conv(KERNEL)                                                                                   \
    KERNEL(col2im)                                                                                                     \
    KERNEL(conv)                                                                                                       \
    KERNEL(im2col)
ZT_CUDA_KERNELS_conv(ZT_CUDA_ID)

#endif
