/* The lines a softmax runs over, read from its node: shared by its row and the kernels of all back ends. */
#ifndef ZT_OPS_SOFTMAX_SOFTMAX_H
#define ZT_OPS_SOFTMAX_SOFTMAX_H

#include "ops/kernel/axis_slices.h"

/* Whether a node is of the form before opset 13. */
bool zt_softmax_is_flat(const struct zt_node *n);

/* Softmax, LogSoftmax, Hardmax and their gradients. Opset 13 on: along `axis`. Before: over all axes from `axis` on, as
 * one line. */
bool zt_softmax_read(const struct zt_graph *g, int node, struct zt_axis_slices *to, struct zt_err *err);

#endif
