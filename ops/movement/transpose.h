/* What others ask of a Transpose node. */
#ifndef ZT_OPS_MOVEMENT_TRANSPOSE_H
#define ZT_OPS_MOVEMENT_TRANSPOSE_H

#include "graph/ir/op.h"

/* Its permutation: axis k of the result is axis perm[k] of the input, of `rank` axes; reversed where the attribute is
 * absent. */
bool zt_transpose_perm(const struct zt_graph *g, int node, int rank, int perm[ZT_MAX_RANK], struct zt_err *err);

#endif
