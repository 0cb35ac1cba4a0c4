/* Rows of the operators in the reference cases with the properties that passes need, without kernels: whether gradients
 * flow, inputs without gradient, copies. */
#ifndef ZT_TESTS_GRAPH_ROWS_H
#define ZT_TESTS_GRAPH_ROWS_H

#include "graph/ir/op.h"

extern const struct zt_op_table zt_test_rows;

/* Sets node->op of every node that has a row; the others stay without. */
void zt_test_resolve(struct zt_graph *g);

#endif
