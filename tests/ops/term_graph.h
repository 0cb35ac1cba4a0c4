/* Graphs written as terms, for tests of fusion patterns:
 *
 *     d = Sub(x[2,3,8], ReduceMean(x, {-1})); Div(d, Sqrt(Add(ReduceMean(Mul(d, d), {-1}), 0.00001)))
 *
 *     Op(a, b)         a node of the newest opset
 *     Op@13(...)       of opset 13
 *     Op<axis=1,perm=0 2 1,axes=[1],epsilon=0.1,equation='ij,jk'>(...)
 *                      with attributes
 *     Op:2(...)        with two outputs, the second called after the first with a '
 *     name = term      names what a term makes; terms are separated by ';', the last one is the result
 *     x[2,3]           a trained parameter of that shape, where it comes first; then x
 *     x~[2,3]          a graph input; x~bool[2,3]: a mask, true on and below the diagonal of its last two axes
 *     x![2,3]          a constant, also x!bool[2,3]; x!1[2,3]: of ones, x!0[2,3]: of zeros
 *     0.5, -inf        scalar float constants; {1,-1}: an int64 list; an empty argument is omitted */
#ifndef ZT_TESTS_OPS_TERM_GRAPH_H
#define ZT_TESTS_OPS_TERM_GRAPH_H

#include "graph/ir/graph.h"

/* Aborts the test where the text is wrong. The result is the graph's output. Nothing is resolved. */
struct zt_graph *term_graph(const char *text);

#endif
