/* Turning a node into its training form (struct zt_op, `train`). */
#ifndef ZT_OPS_KERNEL_TRAINING_FORM_H
#define ZT_OPS_KERNEL_TRAINING_FORM_H

#include "graph/ir/op.h"

/* Makes `node` one of `row`: same inputs and attributes, `out_count` outputs, new values for those it did not have,
 * dtypes and shapes inferred. */
bool zt_train_rewrite(struct zt_graph *g, int node, const struct zt_op *row, int out_count, struct zt_err *err);

#endif
