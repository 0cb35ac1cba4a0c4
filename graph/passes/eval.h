/* Eager evaluation: runs a graph node by node with the reference kernels, or with the CPU's fast ones. Each shape is
 * inferred when its node runs, so data-dependent shapes work. Constant folding, predict and grad use it, and tests
 * compare the executor with it. */
#ifndef ZT_GRAPH_PASSES_EVAL_H
#define ZT_GRAPH_PASSES_EVAL_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

struct zt_eval;

/* Evaluation of `g`, which it modifies: values get dtype, shape and data as they are computed. The data live as long as
 * the zt_eval. */
struct zt_eval *zt_eval_create(struct zt_graph *g, const struct zt_random *random, int threads);
void zt_eval_destroy(struct zt_eval *eval);
/* The same with data in the arena of `g`. */
struct zt_eval *zt_eval_create_within(struct zt_graph *g, const struct zt_random *random, int threads);
/* Memory of an evaluation, bytes. */
struct zt_eval_room {
    size_t arena; /* of the data, with those of dead nodes */
    size_t fast;  /* beside them for the fast kernel of one node (zt_eval_use_fast), at most; 0: no node has one */
};
bool zt_eval_measure(struct zt_graph *g, int threads, struct zt_eval_room *room,
                     struct zt_err *err); /* g is inferred */
/* Memory in which results of products stay for a second run of the same nodes with the same inputs. */
struct zt_eval_kept {
    void *at;     /* aligned to 64 */
    size_t bytes; /* results are placed in their order, each where it still fits */
    bool filled;  /* by an earlier run: nodes all of whose results are there do not run again */
};
/* From now on, until it is called with bytes 0. */
void zt_eval_keep(struct zt_eval *eval, const struct zt_eval_kept *kept);
/* The bytes that results of nodes 0..last-1 of an inferred graph take in such a memory of `limit` bytes. */
size_t zt_eval_kept_bytes(const struct zt_graph *g, int last, size_t limit);
/* Keeps only results: the nodes that a Loop's iterations run need not stay in the graph, and in graphs without
 * subgraphs, sequences and optionals a value's memory is freed when its last reader has run. */
void zt_eval_results_alone(struct zt_eval *eval);
/* Nodes with much work run on the CPU's fast kernels where they support them (eval_fast.h). memory, aligned to 64: for
 * one of them after the other; what does not fit is allocated. NULL with 0 bytes: all is. */
void zt_eval_use_fast(struct zt_eval *eval, void *memory, size_t bytes);
/* Sets the contents (borrowed) of a graph input or cotangent. */
void zt_eval_feed(struct zt_eval *eval, int value, const struct zt_tensor *tensor);
/* Infers and runs nodes first..last-1. On return every output has dtype, shape and data. Nodes with subgraphs are
 * replaced by the nodes that ran, so the graph becomes the straight line that computed the results (except with
 * zt_eval_results_alone). */
bool zt_eval_run(struct zt_eval *eval, int first, int last, struct zt_err *err);

/* Infers and runs one node whose inputs all have data. Its outputs are allocated in `arena`. */
bool zt_eval_node(struct zt_graph *g, int node, struct zt_arena *arena, const struct zt_random *random, int threads,
                  struct zt_err *err);

#endif
