/* A convolution node as a graph for cuDNN and as arguments of our own kernels. Includes no header of cuDNN, so that
 * tests need no GPU. */
#ifndef ZT_OPS_CONV_CONV_DNN_H
#define ZT_OPS_CONV_CONV_DNN_H

#include "ops/conv/conv.h"
#include "ops/cuda/dnn_cuda.h"
#include "ops/conv/launch_conv.h"

/* Numbers of the tensors of the graph; inner tensors follow. */
enum { ZT_DNN_X, ZT_DNN_W, ZT_DNN_Y, ZT_DNN_BIAS };

/* The graph of a convolution of up to three spatial axes; one axis becomes two, the first of length 1. last: x and y
 * are NHWC and w is KRSC, else all are plain. bias: y += a number a channel. */
struct zt_conv_dnn_form {
    enum zt_dtype dtype;
    bool last, bias;
};
/* NULL where cuDNN can be asked, else the reason. */
const char *zt_conv_dnn_refusal(const struct zt_conv *conv, enum zt_conv_direction direction,
                                const struct zt_conv_dnn_form *form);
void zt_conv_dnn(const struct zt_conv *conv, enum zt_conv_direction direction, const struct zt_conv_dnn_form *form,
                 struct zt_dnn_graph *to);

/* Arguments of our own kernels, which run every convolution of up to three axes. */
struct zt_launch_conv zt_conv_launch(const struct zt_conv *conv, enum zt_dtype dtype, bool last);

#endif
