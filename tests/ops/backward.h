/* Holds the gradients that a back end computes against the reference kernels'. */
#ifndef ZT_TESTS_OPS_BACKWARD_H
#define ZT_TESTS_OPS_BACKWARD_H

#include "tests/ops/machine.h"

/* Builds the training form of the case and its gradients, and runs the graph on the reference kernels, on the back end
 * of `o`, and there once more on one thread, which must give the same bits. */
bool backward_check(const struct zt_case *c, const struct options *o, struct zt_err *err);

#endif
