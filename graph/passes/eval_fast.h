/* Kernels of an eager run (eval.h), and a node of it by the CPU's fast ones. */
#ifndef ZT_GRAPH_PASSES_EVAL_FAST_H
#define ZT_GRAPH_PASSES_EVAL_FAST_H

#include "graph/ir/graph.h"
#include "graph/ir/kernel.h"

/* Runs the node's kernel of a back end on tensors that lie where its values' `data` say, in their layouts. Of `with`,
 * state, workspace, threads and random are read. */
bool zt_eval_run_kernel(const struct zt_graph *g, int node, enum zt_backend backend, const struct zt_call *with,
                        struct zt_err *err);

/* Whether the CPU has a fast kernel for the inferred node, and so much work that preparing it takes less time than it
 * saves. */
bool zt_eval_is_fast(const struct zt_graph *g, int node);
/* How a node runs: random numbers, threads, and memory as zt_eval_use_fast() takes it. */
struct zt_eval_fast {
    const struct zt_random *random;
    int threads;
    void *memory;
    size_t bytes;
};
/* Runs the inferred node, whose inputs have data and whose outputs have memory, in plain order. Layouts, reorders and
 * workspace last for the call. */
bool zt_eval_fast_node(const struct zt_graph *g, int node, const struct zt_eval_fast *how, struct zt_err *err);
/* Sets *bytes to the memory that running the inferred node takes beside its inputs and outputs. */
bool zt_eval_fast_bytes(const struct zt_graph *g, int node, int threads, size_t *bytes, struct zt_err *err);

#endif
