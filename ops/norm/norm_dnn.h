/* Normalisations and their gradients as graphs for cuDNN. Includes no header of cuDNN, so that tests need no GPU. */
#ifndef ZT_OPS_NORM_NORM_DNN_H
#define ZT_OPS_NORM_NORM_DNN_H

#include "ops/cuda/dnn_cuda.h"
#include "ops/norm/launch_norm.h"

/* Tensors of the graphs by number. */
enum zt_norm_tensor {
    ZT_NORM_X,
    ZT_NORM_SCALE,
    ZT_NORM_MEAN, /* statistics, in fp32; RMS normalisation has no mean */
    ZT_NORM_INV_STD,
    ZT_NORM_BOTH,
    ZT_NORM_BIAS = ZT_NORM_BOTH, /* as scale; not of RMS normalisation */
    ZT_NORM_EPSILON,             /* a number */
    ZT_NORM_Y,
    ZT_NORM_FORWARD,
    ZT_NORM_DY = ZT_NORM_BOTH,
    ZT_NORM_DX,
    ZT_NORM_DSCALE,
    ZT_NORM_DBIAS,
    ZT_NORM_TENSORS
};

/* x is [samples, channels, places] with a scale and a bias a channel. */
struct zt_norm_dnn {
    enum zt_dnn_norm norm;
    int64_t samples, channels, places;
    bool last; /* channels innermost */
    bool grad;
    enum zt_dtype x, scale; /* and of what is like them; scale may be in fp32 */
};

/* Describes layer and RMS normalisation, whose samples are the rows, and instance and group normalisation with one
 * scale a group, whose channels are the groups. False for groups of several channels: cuDNN has none. */
bool zt_norm_dnn_of(const struct zt_launch_norm *n, struct zt_norm_dnn *to);
/* NULL where cuDNN is asked, else the reason: empty tensors, and fp32, whose own kernels are exact for rows far from
 * 0; cuDNN does not document its statistics. */
const char *zt_norm_dnn_refusal(const struct zt_norm_dnn *n);
/* Writes the graph to `to`. */
void zt_norm_dnn(const struct zt_norm_dnn *n, struct zt_dnn_graph *to);

#endif
