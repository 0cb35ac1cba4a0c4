/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_MOVEMENT_KERNELS_H
#define ZT_OPS_MOVEMENT_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_detach_function_body);
ZT_FUNCTION_BODY(zt_gather_grad_function_body);
ZT_FUNCTION_BODY(zt_gather_elements_grad_function_body);
ZT_FUNCTION_BODY(zt_gather_nd_grad_function_body);
ZT_FUNCTION_BODY(zt_slice_grad_function_body);
ZT_FUNCTION_BODY(zt_pad_grad_function_body);
ZT_FUNCTION_BODY(zt_tile_grad_function_body);
ZT_FUNCTION_BODY(zt_split_old_function_body);
ZT_FUNCTION_BODY(zt_slice_old_function_body);
ZT_FUNCTION_BODY(zt_pad_old_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_reorder_cpu) /* ztrain.Reorder(x) -> the same in another layout */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_movement(KERNEL)                                                                               \
    KERNEL(strided_copies)                                                                                             \
    KERNEL(gather)                                                                                                     \
    KERNEL(gather_elements)                                                                                            \
    KERNEL(gather_tuples)                                                                                              \
    KERNEL(one_hot)                                                                                                    \
    KERNEL(pad)                                                                                                        \
    KERNEL(reverse)                                                                                                    \
    KERNEL(scatter_elements)                                                                                           \
    KERNEL(scatter_tuples)                                                                                             \
    KERNEL(tensor_scatter)                                                                                             \
    KERNEL(triangle)                                                                                                   \
    KERNEL(gather_elements_grad)                                                                                       \
    KERNEL(gather_grad)                                                                                                \
    KERNEL(gather_tuples_grad)                                                                                         \
    KERNEL(pad_grad)                                                                                                   \
    KERNEL(reorder)
ZT_CUDA_KERNELS_movement(ZT_CUDA_ID)

#endif
