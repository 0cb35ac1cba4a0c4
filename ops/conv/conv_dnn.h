/* A convolution node as a graph for cuDNN, and as plain numbers for our own kernels. Knows no header of cuDNN: that no
 * GPU is needed to test what is described. */
#ifndef ZT_OPS_CONV_CONV_DNN_H
#define ZT_OPS_CONV_CONV_DNN_H

#include "ops/conv/conv.h"
#include "ops/cuda/dnn_cuda.h"
#include "ops/conv/launch_conv.h"

/* Tensors of the graph by number, the bias where there is one; inner ones behind these. */
enum { ZT_DNN_X, ZT_DNN_W, ZT_DNN_Y, ZT_DNN_BIAS };

/* Up to three spatial axes; one is taken for two, the first of length 1. All tensors are plain, or channels last: x and
 * y NHWC, w KRSC. bias: y = that of the convolution + a number a channel, in the same graph; relu: and of that what is
 * above 0, NaN where it is NaN. */
struct zt_conv_dnn_form {
    enum zt_dtype dtype;
    bool last, bias, relu;
};
void zt_conv_dnn(const struct zt_conv *conv, enum zt_conv_direction way, const struct zt_conv_dnn_form *form,
                 struct zt_dnn_graph *to);

/* The same for our own kernels, which take any convolution of up to three axes. */
struct zt_launch_conv zt_conv_launch(const struct zt_conv *conv, enum zt_dtype dtype, bool last);

#endif
