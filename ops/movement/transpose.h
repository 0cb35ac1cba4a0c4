/* Transpose: the permutation of a node. */
#ifndef ZT_OPS_MOVEMENT_TRANSPOSE_H
#define ZT_OPS_MOVEMENT_TRANSPOSE_H

#include "graph/ir/op.h"

/* Axis k of the result is axis perm[k] of the input, which has `rank` axes. Without attribute the order is reversed. */
bool zt_transpose_perm(const struct zt_graph *g, int node, int rank, int perm[ZT_MAX_RANK], struct zt_err *err);

#endif
