/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_FUSION_KERNELS_H
#define ZT_OPS_FUSION_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* CPU kernels: *_cpu.c */
double zt_conv_pool_cpu_share(const struct zt_graph *g, int node); /* struct zt_kernel's */
double zt_conv_pool_grad_cpu_share(const struct zt_graph *g, int node);
ZT_CPU_KERNEL(zt_conv_pool_cpu)      /* ztrain.ConvReluPool */
ZT_CPU_KERNEL(zt_conv_pool_grad_cpu) /* ztrain.ConvReluPoolGrad */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_fusion(KERNEL)

#endif
