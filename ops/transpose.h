/* What the back ends of Transpose share. */
#ifndef ZT_OPS_TRANSPOSE_H
#define ZT_OPS_TRANSPOSE_H

#include "graph/op.h"

/* The permutation of a Transpose node; without the attribute axes are reversed. */
bool zt_transpose_perm(const struct zt_graph *g, int node, int rank, int perm[ZT_MAX_RANK], struct zt_err *err);

#endif
