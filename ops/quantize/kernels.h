/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_QUANTIZE_KERNELS_H
#define ZT_OPS_QUANTIZE_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* Turns a DequantizeLinear into a ztrain.FakeQuantize where it reverses a QuantizeLinear (fake_quantize.c). */
void zt_quantize_join(struct zt_graph *g, int node);
/* The type of a dequantized tensor. */
bool zt_dequantize_type(const struct zt_graph *g, int node, int first, enum zt_dtype *to, struct zt_err *err);

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_fake_quantize_function_body);
ZT_FUNCTION_BODY(zt_fake_quantize_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_quantize_cpu) /* QuantizeLinear, DequantizeLinear, FakeQuantize */
ZT_CPU_KERNEL(zt_fake_quantize_grad_cpu)

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_quantize(KERNEL)                                                                               \
    KERNEL(quantize) /* QuantizeLinear, DequantizeLinear, FakeQuantize */                                              \
    KERNEL(fake_quantize_grad)                                                                                         \
    KERNEL(moving_range)                                                                                               \
    KERNEL(range_over_ranks)                                                                                           \
    KERNEL(range_scale)
ZT_CUDA_KERNELS_quantize(ZT_CUDA_ID)

    /* Whether the CUDA kernels take the node. */
    bool zt_quantize_takes_cuda(const struct zt_graph *g, int node);
/* Fills `to`, a struct zt_launch_quantize, for them. Errors name the node and the input that does not fit. */
bool zt_quantize_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err);

#endif
