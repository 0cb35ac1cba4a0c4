/* Tied initializers: two initializers of the file that train as one parameter. */
#ifndef ZT_GRAPH_PASSES_TIE_H
#define ZT_GRAPH_PASSES_TIE_H

#include "graph/ir/graph.h"

struct zt_op_table;

/* Replaces initializer `from` by `to` in every node, in from's shape, or by Transpose(to, perm) when perm is not NULL.
 * `from` is no longer trainable. Rows must be resolved. */
bool zt_pass_tie(struct zt_graph *g, const struct zt_op_table *table, int from, int to, const int64_t *perm,
                 struct zt_err *err);

#endif
