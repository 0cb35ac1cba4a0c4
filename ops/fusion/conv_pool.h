/* Geometry of a convolution fused with ReLU and max pool, read from the fused node: conv_pool.c and its CPU
 * kernel. */
#ifndef ZT_OPS_FUSION_CONV_POOL_H
#define ZT_OPS_FUSION_CONV_POOL_H

#include "ops/conv/conv.h"

struct zt_conv_pool {
    struct zt_conv conv;
    struct zt_window pool; /* its `in` is the convolution's `out`; no dilation; two axes; at most 256 positions */
};
/* ztrain.ConvReluPool(x, w[, b]) and ztrain.ConvReluPoolGrad(x, w, ...): the convolution's attributes, and pool_kernel,
 * pool_strides, pool_pads (begins) and pool_out. */
bool zt_conv_pool_read(const struct zt_graph *g, int node, struct zt_conv_pool *to, struct zt_err *err);
/* Whether the pool's windows are pairs of rows and columns, side by side, and lie within its input. */
bool zt_conv_pool_pairs(const struct zt_window *pool);

#endif
