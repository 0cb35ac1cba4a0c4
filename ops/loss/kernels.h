/* The functions that the rows of this family name: ONNX function bodies, CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_LOSS_KERNELS_H
#define ZT_OPS_LOSS_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* ONNX function bodies: *_onnx.c */
ZT_FUNCTION_BODY(zt_cross_entropy_grad_function_body);
ZT_FUNCTION_BODY(zt_negative_log_likelihood_grad_function_body);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_class_loss_cpu)        /* ztrain.CrossEntropy, NegativeLogLikelihood, and the standard's two */
ZT_CPU_KERNEL(zt_class_loss_grad_cpu)   /* ztrain.CrossEntropyGrad, NegativeLogLikelihoodGrad */
ZT_CPU_KERNEL(zt_class_loss_train_cpu)  /* ztrain.CrossEntropyTrain of adjacent classes */
ZT_CPU_KERNEL(zt_soft_loss_cpu)         /* ztrain.SoftCrossEntropy */
ZT_CPU_KERNEL(zt_soft_loss_grad_cpu)    /* and its gradient */
ZT_CPU_KERNEL(zt_element_loss_cpu)      /* ztrain.SquaredError, AbsoluteError, Huber ... */
ZT_CPU_KERNEL(zt_element_loss_grad_cpu) /* and their gradients */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_loss(KERNEL)                                                                                   \
    KERNEL(class_loss)                                                                                                 \
    KERNEL(element_loss)                                                                                               \
    KERNEL(element_loss_grad)                                                                                          \
    KERNEL(count_correct)                                                                                              \
    KERNEL(class_loss_grad)                                                                                            \
    KERNEL(class_loss_train)                                                                                           \
    KERNEL(soft_loss)                                                                                                  \
    KERNEL(soft_loss_grad)
ZT_CUDA_KERNELS_loss(ZT_CUDA_ID)

#endif
