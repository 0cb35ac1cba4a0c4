/* CausalConvWithState: the geometry of a node, read from its shapes and attributes. Its kernels use it. */
#ifndef ZT_OPS_LINEAR_ATTENTION_CAUSAL_CONV_H
#define ZT_OPS_LINEAR_ATTENTION_CAUSAL_CONV_H

#include "graph/ir/op.h"
#include "ops/linear_attention/launch_causal_conv.h"

/* Inputs of CausalConvWithState and, before the cotangents of its outputs, of ztrain.CausalConvWithStateGrad, whose
 * outputs are the gradients of these inputs in their order. */
enum { ZT_CAUSAL_X, ZT_CAUSAL_W, ZT_CAUSAL_BIAS, ZT_CAUSAL_PAST, ZT_CAUSAL_INS };
enum { ZT_CAUSAL_DY = ZT_CAUSAL_INS, ZT_CAUSAL_DPRESENT, ZT_CAUSAL_GRAD_INS };

/* Reads a node of either row. length + 2 kernel fits 62 bits. */
bool zt_causal_conv_read(const struct zt_graph *g, int node, struct zt_launch_causal_conv *to, struct zt_err *err);

#endif
