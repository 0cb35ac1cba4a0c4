/* The column ZT_CUDA of a row. The kernels themselves are in the CUDA module (device/module.h), which is opened at run
 * time; the program holds what can be said without it: that the row has a kernel there, and which nodes it takes.
 *
 *     .kernel = { [ZT_REF] = { .run = relu_run }, [ZT_CUDA] = ZT_ON_CUDA(zt_cuda_floats) },
 *
 * To add one: the kernel's file in ops/, its line in the list below, this column in the op's row. */
#ifndef ZT_OPS_CUDA_H
#define ZT_OPS_CUDA_H

#include "graph/op.h"

#define ZT_ON_CUDA(supports_)                                                                                          \
    { .supports = supports_, .prepare = zt_cuda_prepare, .run = zt_cuda_run, .release = zt_cuda_release }

/* The ops that have a kernel: domain, name, and the module's zt_kernel_ID_cuda. */
/* clang-format off */
#define ZT_CUDA_OPS(OP)                                 \
    OP("", "Add", add)                                  \
    OP("", "Attention", attention)                      \
    OP("", "AveragePool", average_pool)                 \
    OP("", "Cast", cast)                                \
    OP("", "Conv", conv)                                \
    OP("", "ConvTranspose", conv)                       \
    OP("", "GRU", gru)                                  \
    OP("", "Gemm", matmul)                              \
    OP("", "GlobalAveragePool", global_average_pool)    \
    OP("", "GlobalLpPool", global_lp_pool)              \
    OP("", "GlobalMaxPool", global_max_pool)            \
    OP("", "LSTM", lstm)                                \
    OP("", "LpPool", lp_pool)                           \
    OP("", "MatMul", matmul)                            \
    OP("", "MaxPool", max_pool)                         \
    OP("", "RNN", rnn)                                  \
    OP("", "ReduceSum", reduce_sum)                     \
    OP("", "Relu", relu)                                \
    OP("", "Resize", resize)                            \
    OP("", "Upsample", resize)                          \
    OP("ztrain", "AttentionGrad", attention_grad)       \
    OP("ztrain", "AttentionTrain", attention)           \
    OP("ztrain", "AveragePoolGrad", average_pool_grad)  \
    OP("ztrain", "BatchMatMul", matmul)                 \
    OP("ztrain", "ConvGradInput", conv)                 \
    OP("ztrain", "ConvGradWeight", conv)                \
    OP("ztrain", "ConvTransposeGradInput", conv)        \
    OP("ztrain", "ConvTransposeGradWeight", conv)       \
    OP("ztrain", "CrossEntropy", cross_entropy)         \
    OP("ztrain", "CrossEntropyGrad", cross_entropy_grad)\
    OP("ztrain", "GRUGrad", gru_grad)                   \
    OP("ztrain", "GRUTrain", gru)                       \
    OP("ztrain", "LSTMGrad", lstm_grad)                 \
    OP("ztrain", "LSTMTrain", lstm)                     \
    OP("ztrain", "MaxPoolGrad", max_pool_grad)          \
    OP("ztrain", "MaxPoolReluGrad", max_pool_grad)      \
    OP("ztrain", "MaxPoolTrain", max_pool_train)        \
    OP("ztrain", "RNNGrad", rnn_grad)                   \
    OP("ztrain", "RNNTrain", rnn)                       \
    OP("ztrain", "ReluGrad", relu_grad)                 \
    OP("ztrain", "ResizeGrad", resize_grad)             \
    OP("ztrain", "SumPoolGrad", sum_pool_grad)
/* clang-format on */

/* Whether a row's op is one of them: rows made by one macro have the column together, whether or not each has a kernel.
 */
bool zt_cuda_has(const char *domain, const char *name);

/* Which nodes of these ops the kernels take; false for every other op, so that rows made by one macro may all name the
 * same. */
bool zt_cuda_floats(const struct zt_graph *g, int node); /* all inputs and outputs float, or all bfloat16 */
bool zt_cuda_matmul(const struct zt_graph *g, int node); /* the same, and no empty matrix: MatMul, BatchMatMul, Gemm */
bool zt_cuda_cast(const struct zt_graph *g, int node);   /* between any types that are computed with */
bool zt_cuda_reduce(const struct zt_graph *g, int node); /* float or bfloat16 over neighbouring axes */
bool zt_cuda_cross_entropy(const struct zt_graph *g, int node);      /* targets int32 or int64 */
bool zt_cuda_cross_entropy_grad(const struct zt_graph *g, int node); /* the same, with the log sum exp at hand */

bool zt_cuda_conv(const struct zt_graph *g, int node);   /* float or bfloat16, up to three axes, no empty tensor */
bool zt_cuda_pool(const struct zt_graph *g, int node);   /* the same */
bool zt_cuda_resize(const struct zt_graph *g, int node); /* float or bfloat16 */
/* float or bfloat16 without past keys and further outputs, the mask of these types or bool */
bool zt_cuda_attention(const struct zt_graph *g, int node);

/* These find the kernel of the node's op in the module of its device and call it. */
bool zt_cuda_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_cuda_run(const struct zt_call *call, struct zt_err *err);
void zt_cuda_release(void *state);

#endif
