/* The fast CPU kernels: what a row writes into its [ZT_CPU] column.
 *
 *     .kernel = { [ZT_REF] = { .run = conv_ref }, [ZT_CPU] = ZT_IF_DNNL(zt_conv_cpu) },
 *
 * Each name stands for the four functions of a struct zt_kernel. Builds without oneDNN get an empty column and run the
 * reference kernels, but for rows that say ZT_ON_CPU, whose kernels are there in every build. Which types each takes is
 * its own matter; no sum is cut by threads, so all give the same bits at any thread count. */
#ifndef ZT_OPS_CPU_CPU_H
#define ZT_OPS_CPU_CPU_H

#include "graph/ir/op.h"

#define ZT_CPU_KERNEL(id)                                                                                              \
    bool id##_supports(const struct zt_graph *g, int node);                                                            \
    bool id##_prepare(struct zt_prepare *p, struct zt_err *err);                                                       \
    bool id##_run(const struct zt_call *call, struct zt_err *err);                                                     \
    void id##_release(void *state);

#define ZT_ON_CPU(id)                                                                                                  \
    { .supports = id##_supports, .prepare = id##_prepare, .run = id##_run, .release = id##_release }
#ifdef HAVE_DNNL
#define ZT_IF_DNNL(id) ZT_ON_CPU(id)
#else
#define ZT_IF_DNNL(id)                                                                                                 \
    { 0 }
#endif

/* conv_cpu.c */
ZT_CPU_KERNEL(zt_conv_cpu) /* Conv(x, w[, b]) -> y; ztrain.ConvRelu, the same with max(y, 0); ztrain.ConvActivation */
ZT_CPU_KERNEL(zt_conv_grad_input_cpu)            /* ztrain.ConvGradInput(w, dy) -> dx */
ZT_CPU_KERNEL(zt_conv_grad_weight_cpu)           /* ztrain.ConvGradWeight(x, dy) -> dw[, db] */
ZT_CPU_KERNEL(zt_conv_transpose_cpu)             /* ConvTranspose(y, w[, b]) -> x */
ZT_CPU_KERNEL(zt_conv_transpose_grad_input_cpu)  /* ztrain.ConvTransposeGradInput(w, dx) -> dy */
ZT_CPU_KERNEL(zt_conv_transpose_grad_weight_cpu) /* ztrain.ConvTransposeGradWeight(y, dx) -> dw */
/* conv_pool_cpu.c */
ZT_CPU_KERNEL(zt_conv_pool_cpu)      /* ztrain.ConvReluPool */
ZT_CPU_KERNEL(zt_conv_pool_grad_cpu) /* ztrain.ConvReluPoolGrad */
/* einsum_cpu.c: in every build */
ZT_CPU_KERNEL(zt_einsum_cpu)      /* Einsum of two operands */
ZT_CPU_KERNEL(zt_einsum_grad_cpu) /* ztrain.EinsumGrad */
/* grid_sample_cpu.c: in every build */
ZT_CPU_KERNEL(zt_grid_sample_cpu)      /* GridSample */
ZT_CPU_KERNEL(zt_grid_sample_grad_cpu) /* ztrain.GridSampleGrad */
/* matmul_cpu.c */
ZT_CPU_KERNEL(zt_matmul_cpu) /* MatMul, ztrain.BatchMatMul, Gemm, ztrain.GemmRelu: in every build */
/* pool_cpu.c */
ZT_CPU_KERNEL(zt_max_pool_cpu) /* MaxPool (without Indices), GlobalMaxPool, ztrain.MaxPoolTrain(x) -> y, position */
ZT_CPU_KERNEL(zt_max_pool_grad_cpu) /* ztrain.MaxPoolGrad, ztrain.MaxPoolReluGrad */
ZT_CPU_KERNEL(zt_sum_pool_cpu)      /* AveragePool, LpPool and their global forms */
ZT_CPU_KERNEL(zt_sum_pool_grad_cpu) /* ztrain.AveragePoolGrad, ztrain.SumPoolGrad */
/* resize_cpu.c */
ZT_CPU_KERNEL(zt_resize_cpu)      /* Resize, Upsample */
ZT_CPU_KERNEL(zt_resize_grad_cpu) /* ztrain.ResizeGrad */
/* Lines and rows in vectors (simd_rows.h), float and half types, in every build.
 * attention_cpu.c, attention_grad_cpu.c: float only */
ZT_CPU_KERNEL(zt_attention_cpu)      /* Attention (y alone), ztrain.AttentionTrain */
ZT_CPU_KERNEL(zt_attention_grad_cpu) /* ztrain.AttentionGrad of a training form */
/* class_loss_cpu.c */
ZT_CPU_KERNEL(zt_class_loss_cpu)      /* ztrain.CrossEntropy, NegativeLogLikelihood, and the standard's two */
ZT_CPU_KERNEL(zt_class_loss_grad_cpu) /* ztrain.CrossEntropyGrad, NegativeLogLikelihoodGrad */
/* batch_norm_cpu.c: blocked layouts where oneDNN is there */
/* BatchNormalization with running statistics, ztrain.BatchNormTrain, and BatchNormSync where all rows count */
ZT_CPU_KERNEL(zt_batch_norm_cpu)
/* ztrain.BatchNormGrad (without gradients of the statistics), BatchNormFixedGrad, BatchNormSyncGrad as above */
ZT_CPU_KERNEL(zt_batch_norm_grad_cpu)
/* element_loss_cpu.c */
ZT_CPU_KERNEL(zt_element_loss_cpu)      /* ztrain.SquaredError, AbsoluteError, Huber ... */
ZT_CPU_KERNEL(zt_element_loss_grad_cpu) /* and their gradients */
/* norm_slices_cpu.c */
ZT_CPU_KERNEL(zt_norm_rows_cpu) /* LRN, LpNormalization, MeanVarianceNormalization and their gradients */
/* norm_rows_cpu.c */
ZT_CPU_KERNEL(zt_norm_cpu)       /* Layer-, RMS-, Instance-, GroupNormalization */
ZT_CPU_KERNEL(zt_norm_stats_cpu) /* ztrain.NormStats */
ZT_CPU_KERNEL(zt_norm_grad_cpu)  /* ztrain.NormGrad */
/* rotary_cpu.c: float only */
ZT_CPU_KERNEL(zt_rotary_cpu) /* RotaryEmbedding */
/* softmax_cpu.c */
ZT_CPU_KERNEL(zt_softmax_cpu) /* Softmax, LogSoftmax and their gradients */
/* reorder.c */
ZT_CPU_KERNEL(zt_reorder_cpu) /* ztrain.Reorder(x) -> the same in another layout */

#endif
