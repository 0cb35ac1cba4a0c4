/* A node of an eager run (eval.h) by the CPU's fast kernels. */
#ifndef ZT_GRAPH_PASSES_EVAL_FAST_H
#define ZT_GRAPH_PASSES_EVAL_FAST_H

#include "graph/ir/graph.h"
#include "graph/ir/kernel.h"

/* Whether the CPU has a fast kernel for the inferred node, and so much work that preparing it takes less time than it
 * saves. */
bool zt_eval_is_fast(const struct zt_graph *g, int node);
/* Runs the inferred node, whose inputs have data and whose outputs have memory, in plain order. Layouts, reorders and
 * workspace last for the call. */
bool zt_eval_fast_node(const struct zt_graph *g, int node, const struct zt_random *random, int threads,
                       struct zt_err *err);

#endif
