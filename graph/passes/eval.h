/* Runs a graph eagerly, node by node, with the reference kernels: shapes are known only as it goes, so data-dependent
 * ones work. Used for constant folding, predict and grad, and as the oracle of the planned executor. */
#ifndef ZT_GRAPH_PASSES_EVAL_H
#define ZT_GRAPH_PASSES_EVAL_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

struct zt_eval;

/* `g` is changed: values get dtype, shape and data as they are computed (data live as long as the eval). */
struct zt_eval *zt_eval_create(struct zt_graph *g, const struct zt_random *random, int threads);
void zt_eval_destroy(struct zt_eval *eval);
/* Nobody will ask which nodes made the results: what only a Loop's turns computed need not be kept. */
void zt_eval_results_alone(struct zt_eval *eval);
/* Gives a graph input (or cotangent) its contents, borrowed. */
void zt_eval_feed(struct zt_eval *eval, int value, const struct zt_tensor *tensor);
/* Infers and runs nodes [first, last). On return every output has dtype, shape and data. Nodes with bodies have been
 * replaced by what was run of them: the graph is then the straight line of nodes that made the results, those excepted
 * of which the results alone count. */
bool zt_eval_run(struct zt_eval *eval, int first, int last, struct zt_err *err);

/* Runs one node whose inputs all have data: infers, and allocates its outputs in `arena`. */
bool zt_eval_node(struct zt_graph *g, int node, struct zt_arena *arena, const struct zt_random *random, int threads,
                  struct zt_err *err);

#endif
