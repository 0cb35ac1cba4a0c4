/* The column ZT_CUDA of a row. The kernels themselves are in the CUDA module (device/module.h), which is opened at run
 * time; the program holds what can be said without it: that the row has a kernel there, and which nodes it takes.
 *
 *     .kernel = { [ZT_REF] = { .run = relu_run }, [ZT_CUDA] = ZT_ON_CUDA(zt_cuda_floats) },
 *
 * To add one: the kernel's file in ops/, its line in the list below, this column in the op's row. */
#ifndef ZT_OPS_CUDA_CUDA_H
#define ZT_OPS_CUDA_CUDA_H

#include "graph/ir/op.h"

#define ZT_ON_CUDA(supports_)                                                                                          \
    { .supports = supports_, .prepare = zt_cuda_prepare, .run = zt_cuda_run, .release = zt_cuda_release }

/* The same for kernels that are told of the node by its row (describe of graph/ir/op.h). */
#define ZT_CUDA_AS(supports_, describe_)                                                                               \
    {                                                                                                                  \
        .supports = supports_, .describe = describe_, .prepare = zt_cuda_prepare, .run = zt_cuda_run,                  \
        .release = zt_cuda_release                                                                                     \
    }
#define ZT_POINTWISE_CUDA ZT_CUDA_AS(zt_cuda_pointwise, zt_cuda_describe_pointwise)
#define ZT_MOVES_CUDA(id) ZT_CUDA_AS(zt_cuda_listed, id##_describe)
#define ZT_REDUCE_CUDA    ZT_CUDA_AS(zt_cuda_reduce, zt_reduce_describe)

/* The ops that have a kernel: domain, name, and the module's zt_kernel_ID_cuda. */
/* clang-format off */
#define ZT_CUDA_OPS(OP)                                         \
    OP("", "Abs", pointwise)                                    \
    OP("", "Acos", pointwise)                                   \
    OP("", "Acosh", pointwise)                                  \
    OP("", "Add", pointwise)                                    \
    OP("", "AffineGrid", affine_grid)                           \
    OP("", "And", pointwise)                                    \
    OP("", "ArgMax", extreme)                                   \
    OP("", "ArgMin", extreme)                                   \
    OP("", "Asin", pointwise)                                   \
    OP("", "Asinh", pointwise)                                  \
    OP("", "Atan", pointwise)                                   \
    OP("", "Atanh", pointwise)                                  \
    OP("", "Attention", attention)                              \
    OP("", "AveragePool", average_pool)                         \
    OP("", "BatchNormalization", batch_norm)                    \
    OP("", "Bernoulli", draws)                                  \
    OP("", "BitShift", pointwise)                               \
    OP("", "BitwiseAnd", pointwise)                             \
    OP("", "BitwiseNot", pointwise)                             \
    OP("", "BitwiseOr", pointwise)                              \
    OP("", "BitwiseXor", pointwise)                             \
    OP("", "Cast", pointwise)                                   \
    OP("", "CastLike", pointwise)                               \
    OP("", "Ceil", pointwise)                                   \
    OP("", "Celu", pointwise)                                   \
    OP("", "CenterCropPad", strided_copies)                              \
    OP("", "Clip", pointwise)                                   \
    OP("", "Col2Im", col2im)                                    \
    OP("", "Concat", strided_copies)                                     \
    OP("", "Conv", conv)                                        \
    OP("", "ConvTranspose", conv)                               \
    OP("", "Cos", pointwise)                                    \
    OP("", "Cosh", pointwise)                                   \
    OP("", "CumProd", cumulate)                                 \
    OP("", "CumSum", cumulate)                                  \
    OP("", "DepthToSpace", strided_copies)                               \
    OP("", "Div", pointwise)                                    \
    OP("", "Dropout", strided_copies)                                    \
    OP("", "Einsum", einsum)                                    \
    OP("", "Elu", pointwise)                                    \
    OP("", "Equal", pointwise)                                  \
    OP("", "Erf", pointwise)                                    \
    OP("", "Exp", pointwise)                                    \
    OP("", "Expand", strided_copies)                                     \
    OP("", "Flatten", strided_copies)                                    \
    OP("", "Floor", pointwise)                                  \
    OP("", "GRU", gru)                                          \
    OP("", "Gather", gather)                                    \
    OP("", "GatherElements", gather_elements)                   \
    OP("", "GatherND", gather_tuples)                           \
    OP("", "Gelu", pointwise)                                   \
    OP("", "Gemm", matmul)                                      \
    OP("", "GlobalAveragePool", global_average_pool)            \
    OP("", "GlobalLpPool", global_lp_pool)                      \
    OP("", "GlobalMaxPool", global_max_pool)                    \
    OP("", "Greater", pointwise)                                \
    OP("", "GreaterOrEqual", pointwise)                         \
    OP("", "GridSample", grid_sample)                           \
    OP("", "GroupNormalization", norm)                          \
    OP("", "HardSigmoid", pointwise)                            \
    OP("", "HardSwish", pointwise)                              \
    OP("", "Hardmax", softmax)                                  \
    OP("", "Identity", strided_copies)                                   \
    OP("", "InstanceNormalization", norm)                       \
    OP("", "IsInf", pointwise)                                  \
    OP("", "IsNaN", pointwise)                                  \
    OP("", "LRN", lrn)                                          \
    OP("", "LSTM", lstm)                                        \
    OP("", "LayerNormalization", norm)                          \
    OP("", "LeakyRelu", pointwise)                              \
    OP("", "Less", pointwise)                                   \
    OP("", "LessOrEqual", pointwise)                            \
    OP("", "Log", pointwise)                                    \
    OP("", "LogSoftmax", softmax)                               \
    OP("", "LpNormalization", lp)                               \
    OP("", "LpPool", lp_pool)                                   \
    OP("", "MatMul", matmul)                                    \
    OP("", "Max", pointwise)                                    \
    OP("", "MaxPool", max_pool)                                 \
    OP("", "MaxUnpool", unpool)                                 \
    OP("", "Mean", pointwise)                                   \
    OP("", "MeanVarianceNormalization", mvn)                    \
    OP("", "Min", pointwise)                                    \
    OP("", "Mish", pointwise)                                   \
    OP("", "Mod", pointwise)                                    \
    OP("", "Mul", pointwise)                                    \
    OP("", "Multinomial", multinomial)                          \
    OP("", "Neg", pointwise)                                    \
    OP("", "NegativeLogLikelihoodLoss", class_loss)             \
    OP("", "Not", pointwise)                                    \
    OP("", "OneHot", one_hot)                                   \
    OP("", "Or", pointwise)                                     \
    OP("", "PRelu", pointwise)                                  \
    OP("", "Pad", pad)                                          \
    OP("", "Pow", pointwise)                                    \
    OP("", "RMSNormalization", norm)                            \
    OP("", "RNN", rnn)                                          \
    OP("", "RandomNormal", draws)                               \
    OP("", "RandomNormalLike", draws)                           \
    OP("", "RandomUniform", draws)                              \
    OP("", "RandomUniformLike", draws)                          \
    OP("", "Reciprocal", pointwise)                             \
    OP("", "ReduceL1", reduce)                                  \
    OP("", "ReduceL2", reduce)                                  \
    OP("", "ReduceLogSum", reduce)                              \
    OP("", "ReduceLogSumExp", reduce)                           \
    OP("", "ReduceMax", reduce)                                 \
    OP("", "ReduceMean", reduce)                                \
    OP("", "ReduceMin", reduce)                                 \
    OP("", "ReduceProd", reduce)                                \
    OP("", "ReduceSum", reduce)                                 \
    OP("", "ReduceSumSquare", reduce)                           \
    OP("", "Relu", pointwise)                                   \
    OP("", "Reshape", strided_copies)                                    \
    OP("", "Resize", resize)                                    \
    OP("", "ReverseSequence", reverse)                          \
    OP("", "RotaryEmbedding", rotary)                           \
    OP("", "Round", pointwise)                                  \
    OP("", "Scatter", scatter_elements)                         \
    OP("", "ScatterElements", scatter_elements)                 \
    OP("", "ScatterND", scatter_tuples)                         \
    OP("", "Selu", pointwise)                                   \
    OP("", "Shrink", pointwise)                                 \
    OP("", "Sigmoid", pointwise)                                \
    OP("", "Sign", pointwise)                                   \
    OP("", "Sin", pointwise)                                    \
    OP("", "Sinh", pointwise)                                   \
    OP("", "Slice", strided_copies)                                      \
    OP("", "Softmax", softmax)                                  \
    OP("", "SoftmaxCrossEntropyLoss", class_loss)               \
    OP("", "Softplus", pointwise)                               \
    OP("", "Softsign", pointwise)                               \
    OP("", "SpaceToDepth", strided_copies)                               \
    OP("", "Split", strided_copies)                                      \
    OP("", "Sqrt", pointwise)                                   \
    OP("", "Squeeze", strided_copies)                                    \
    OP("", "Sub", pointwise)                                    \
    OP("", "Sum", pointwise)                                    \
    OP("", "SwiGLU", pointwise)                                 \
    OP("", "Swish", pointwise)                                  \
    OP("", "Tan", pointwise)                                    \
    OP("", "Tanh", pointwise)                                   \
    OP("", "ThresholdedRelu", pointwise)                        \
    OP("", "Tile", strided_copies)                                       \
    OP("", "TopK", top_k)                                       \
    OP("", "Transpose", strided_copies)                                  \
    OP("", "Trilu", triangle)                                   \
    OP("", "Unsqueeze", strided_copies)                                  \
    OP("", "Upsample", resize)                                  \
    OP("", "Where", pointwise)                                  \
    OP("", "Xor", pointwise)                                    \
    OP("ztrain", "AbsGrad", pointwise)                          \
    OP("ztrain", "AbsoluteError", element_loss)                 \
    OP("ztrain", "AbsoluteErrorGrad", element_loss_grad)        \
    OP("ztrain", "AcosGrad", pointwise)                         \
    OP("ztrain", "AcoshGrad", pointwise)                        \
    OP("ztrain", "AffineGridGrad", affine_grid_grad)            \
    OP("ztrain", "AsinGrad", pointwise)                         \
    OP("ztrain", "AsinhGrad", pointwise)                        \
    OP("ztrain", "AtanGrad", pointwise)                         \
    OP("ztrain", "AtanhGrad", pointwise)                        \
    OP("ztrain", "AttentionGrad", attention_grad)               \
    OP("ztrain", "AttentionTrain", attention)                   \
    OP("ztrain", "AveragePoolGrad", average_pool_grad)          \
    OP("ztrain", "BatchMatMul", matmul)                         \
    OP("ztrain", "BatchNormFixedGrad", batch_norm_grad)         \
    OP("ztrain", "BatchNormGrad", batch_norm_grad)              \
    OP("ztrain", "BatchNormRelu", batch_norm_relu)              \
    OP("ztrain", "BatchNormReluGrad", batch_norm_relu_grad)     \
    OP("ztrain", "BatchNormStatistics", batch_norm_statistics)  \
    OP("ztrain", "BatchNormSync", batch_norm_sync)              \
    OP("ztrain", "BatchNormSyncGrad", batch_norm_sync_grad)     \
    OP("ztrain", "BatchNormTrain", batch_norm)                  \
    OP("ztrain", "BinaryCrossEntropy", element_loss)            \
    OP("ztrain", "BinaryCrossEntropyGrad", element_loss_grad)   \
    OP("ztrain", "CeluGrad", pointwise)                         \
    OP("ztrain", "Chain", pointwise)                            \
    OP("ztrain", "ClipGrad", pointwise)                         \
    OP("ztrain", "ConvGradInput", conv)                         \
    OP("ztrain", "ConvGradWeight", conv)                        \
    OP("ztrain", "ConvRelu", conv)                              \
    OP("ztrain", "ConvTransposeGradInput", conv)                \
    OP("ztrain", "ConvTransposeGradWeight", conv)               \
    OP("ztrain", "CosGrad", pointwise)                          \
    OP("ztrain", "CoshGrad", pointwise)                         \
    OP("ztrain", "CountCorrect", count_correct)                 \
    OP("ztrain", "CrossEntropy", class_loss)                    \
    OP("ztrain", "CrossEntropyGrad", class_loss_grad)           \
    OP("ztrain", "CrossEntropyTrain", class_loss_train)         \
    OP("ztrain", "DropoutGrad", pointwise)                      \
    OP("ztrain", "DropoutTrain", dropout)                       \
    OP("ztrain", "EinsumGrad", einsum)                          \
    OP("ztrain", "EluGrad", pointwise)                          \
    OP("ztrain", "ErfGrad", pointwise)                          \
    OP("ztrain", "ExpGrad", pointwise)                          \
    OP("ztrain", "GRUGrad", gru_grad)                           \
    OP("ztrain", "GRUTrain", gru)                               \
    OP("ztrain", "GatherElementsGrad", gather_elements_grad)    \
    OP("ztrain", "GatherGrad", gather_grad)                     \
    OP("ztrain", "GatherNDGrad", gather_tuples_grad)            \
    OP("ztrain", "GeluGrad", pointwise)                         \
    OP("ztrain", "GemmFloat", matmul)                           \
    OP("ztrain", "GridSampleGrad", grid_sample_grad)            \
    OP("ztrain", "HardSigmoidGrad", pointwise)                  \
    OP("ztrain", "HardSwishGrad", pointwise)                    \
    OP("ztrain", "Huber", element_loss)                         \
    OP("ztrain", "HuberGrad", element_loss_grad)                \
    OP("ztrain", "Im2Col", im2col)                              \
    OP("ztrain", "LRNGrad", lrn_grad)                           \
    OP("ztrain", "LSTMGrad", lstm_grad)                         \
    OP("ztrain", "LSTMTrain", lstm)                             \
    OP("ztrain", "LeakyReluGrad", pointwise)                    \
    OP("ztrain", "Linear", matmul)                              \
    OP("ztrain", "LinearGelu", linear_gelu)                     \
    OP("ztrain", "LinearRelu", linear_relu)                     \
    OP("ztrain", "LogGrad", pointwise)                          \
    OP("ztrain", "LogSoftmaxGrad", softmax)                     \
    OP("ztrain", "LpNormalizationGrad", lp)                     \
    OP("ztrain", "MatMulGeluGrad", linear_gelu_grad)            \
    OP("ztrain", "MatMulReluGrad", linear_relu_grad)            \
    OP("ztrain", "MaxPoolGrad", max_pool_grad)                  \
    OP("ztrain", "MaxPoolReluGrad", max_pool_grad)              \
    OP("ztrain", "MaxPoolTrain", max_pool_train)                \
    OP("ztrain", "MaxUnpoolGrad", unpool_grad)                  \
    OP("ztrain", "MeanVarianceNormalizationGrad", mvn)          \
    OP("ztrain", "MishGrad", pointwise)                         \
    OP("ztrain", "NegGrad", pointwise)                          \
    OP("ztrain", "NegativeLogLikelihood", class_loss)           \
    OP("ztrain", "NegativeLogLikelihoodGrad", class_loss_grad)  \
    OP("ztrain", "NormGrad", norm_grad)                         \
    OP("ztrain", "NormStats", norm_stats)                       \
    OP("ztrain", "PackedAttention", attention)                  \
    OP("ztrain", "PackedAttentionGrad", attention_grad)         \
    OP("ztrain", "PackedAttentionTrain", attention)             \
    OP("ztrain", "PadGrad", pad_grad)                           \
    OP("ztrain", "PowLog", pointwise)                           \
    OP("ztrain", "PowSlope", pointwise)                         \
    OP("ztrain", "RNNGrad", rnn_grad)                           \
    OP("ztrain", "RNNTrain", rnn)                               \
    OP("ztrain", "ReciprocalGrad", pointwise)                   \
    OP("ztrain", "ReluGrad", pointwise)                         \
    OP("ztrain", "Reorder", reorder)                            \
    OP("ztrain", "ResizeGrad", resize_grad)                     \
    OP("ztrain", "RotaryCacheGrad", rotary_cache_grad)          \
    OP("ztrain", "SeluGrad", pointwise)                         \
    OP("ztrain", "ShrinkGrad", pointwise)                       \
    OP("ztrain", "SigmoidGrad", pointwise)                      \
    OP("ztrain", "SinGrad", pointwise)                          \
    OP("ztrain", "SinhGrad", pointwise)                         \
    OP("ztrain", "SliceGrad", strided_copies)                            \
    OP("ztrain", "SmoothAbsoluteError", element_loss)           \
    OP("ztrain", "SmoothAbsoluteErrorGrad", element_loss_grad)  \
    OP("ztrain", "SoftmaxGrad", softmax)                        \
    OP("ztrain", "SoftplusGrad", pointwise)                     \
    OP("ztrain", "SoftsignGrad", pointwise)                     \
    OP("ztrain", "SqrtGrad", pointwise)                         \
    OP("ztrain", "SquaredError", element_loss)                  \
    OP("ztrain", "SquaredErrorGrad", element_loss_grad)         \
    OP("ztrain", "SumPoolGrad", sum_pool_grad)                  \
    OP("ztrain", "SwishGrad", pointwise)                        \
    OP("ztrain", "TanGrad", pointwise)                          \
    OP("ztrain", "TanhGrad", pointwise)                         \
    OP("ztrain", "ThresholdedReluGrad", pointwise)              \
    OP("ztrain", "TileGrad", reduce)
/* clang-format on */

/* Whether a row's op is one of them: rows made by one macro have the column together, whether or not each has a kernel.
 */
bool zt_cuda_has(const char *domain, const char *name);

/* Which nodes of these ops the kernels take; false for every other op, so that rows made by one macro may all name the
 * same. */
bool zt_cuda_floats(const struct zt_graph *g, int node); /* all inputs and outputs float, or all of one half type */
bool zt_cuda_matmul(const struct zt_graph *g, int node); /* the same, and no empty matrix: products */
bool zt_cuda_matmul_float(const struct zt_graph *g, int node); /* such a product, every tensor float or half */
bool zt_cuda_matmul_bits(const struct zt_graph *g, int node);  /* the same, with a bit an element beside it */
bool zt_cuda_listed(const struct zt_graph *g, int node);       /* of any type */
bool zt_cuda_any_floats(const struct zt_graph *g, int node);   /* every tensor float or half */
/* input 0 and output 0, if there, float or both of one half type */
bool zt_cuda_float_data(const struct zt_graph *g, int node);
bool zt_cuda_numbers(const struct zt_graph *g, int node);      /* input 0 float, half, int32 or int64 */
bool zt_cuda_pointwise(const struct zt_graph *g, int node);    /* for which there is an expression (pointwise.h) */
bool zt_cuda_tile(const struct zt_graph *g, int node);         /* Tile of no more axes than a copy can have */
bool zt_cuda_reduce(const struct zt_graph *g, int node);       /* float or half */
bool zt_cuda_class_loss(const struct zt_graph *g, int node);   /* targets int32 or int64 */
bool zt_cuda_element_loss(const struct zt_graph *g, int node); /* targets float types, bool, uint8, int32 or int64 */

/* To a struct zt_fused_elementwise (pointwise.h). A row with this in its column is elementwise: its nodes may become
 * steps. */
bool zt_cuda_describe_pointwise(const struct zt_graph *g, int node, void *to, struct zt_err *err);

bool zt_cuda_conv(const struct zt_graph *g, int node);   /* float or half, up to three axes, no empty tensor */
bool zt_cuda_pool(const struct zt_graph *g, int node);   /* the same */
bool zt_cuda_resize(const struct zt_graph *g, int node); /* float or half */
/* float or half without past keys and further outputs, the mask of these types or bool */
bool zt_cuda_attention(const struct zt_graph *g, int node);

/* These find the kernel of the node's op in the module of its device and call it. */
bool zt_cuda_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_cuda_run(const struct zt_call *call, struct zt_err *err);
void zt_cuda_release(void *state);

#endif
