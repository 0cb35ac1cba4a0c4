/* Softmax: the slices that it normalises, read from the node. The kernels of all back ends use it. */
#ifndef ZT_OPS_SOFTMAX_SOFTMAX_H
#define ZT_OPS_SOFTMAX_SOFTMAX_H

#include "ops/kernel/axis_slices.h"

/* Whether a node is of the form before opset 13. */
bool zt_softmax_is_flat(const struct zt_node *n);

/* Softmax, LogSoftmax, Hardmax and their gradients. From opset 13 a slice runs along `axis`; before, over all axes from
 * `axis` on. */
bool zt_softmax_read(const struct zt_graph *g, int node, struct zt_axis_slices *to, struct zt_err *err);

#endif
