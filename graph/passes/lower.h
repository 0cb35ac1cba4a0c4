/* Lowering: calls of model-local functions and nodes with subgraphs (If, Loop, Scan) become ordinary nodes.
 *
 *     call f(a, b)                      ->  the nodes of f, named "call/inner", reading a and b
 *     If(c) then { .. } else { .. }     ->  the nodes of one branch, once c is known
 *     Loop(n, c, v) { .. }              ->  the nodes of the subgraph once per iteration: "loop#0/inner",
 * "loop#1/inner", or one node that runs as a loop (ops/control/loop.h) for many iterations
 *
 * Function calls are inlined before rows are resolved. A node with a subgraph is expanded when inference, or an eager
 * run, reaches it: the condition or trip count must be known then, else the model is refused. The result is a straight
 * line of ordinary nodes; later passes need not know about functions or subgraphs. */
#ifndef ZT_GRAPH_PASSES_LOWER_H
#define ZT_GRAPH_PASSES_LOWER_H

#include "base/vec.h"
#include "graph/ir/functions.h"
#include "graph/ir/graph.h"
#include "graph/ir/op.h"

struct zt_lower_count;

/* Replaces every function call by the function's nodes. A function that implements an operator of ONNX's own domain is
 * ignored where the table has a row for that operator: by the standard both compute the same, and the row has kernels.
 */
bool zt_pass_lower(struct zt_graph *g, const struct zt_op_table *table, struct zt_err *err);

/* Appends the nodes of every subgraph in g once, nested subgraphs included. They read what they capture; inputs and
 * outputs of the subgraphs are not connected. Fails when g has more than `most` nodes then. For inspection; the result
 * cannot be run. */
bool zt_pass_open_bodies(struct zt_graph *g, const struct zt_op_table *table, int most, struct zt_err *err);

/* ---- expansion of nodes with subgraphs ---- */

/* What becomes of an If whose condition depends on data and whose branches give other sizes, and of a Loop whose number
 * of iterations depends on data. In a trial of sizes (data_sizes.h) it is the branch that gives the most or the least
 * elements, and the largest or smallest number of iterations. */
enum zt_trial { ZT_TRIAL_NONE, ZT_TRIAL_MOST, ZT_TRIAL_LEAST }; /* ZT_TRIAL_NONE: it is refused */

/* Processes the nodes that one call of an `expand` hook has appended. */
struct zt_settler {
    void *with; /* first argument of both */
    /* Infers or runs nodes first..last-1, which are in executable order. */
    bool (*settle)(void *with, int first, int last, struct zt_err *err);
    /* Runs a separate graph eagerly: its values without a producer have data, its results are allocated in its arena.
     * NULL: not available (inference, and eager runs that must record their nodes). */
    bool (*run)(void *with, struct zt_graph *g, struct zt_err *err);
    enum zt_trial trial;
    bool *unsized; /* set where a number of iterations depends on data; NULL: not wanted */
};

/* The expansion of one node. The row's `expand` hook is called until it sets `done`; after each call the appended nodes
 * are settled. */
struct zt_expansion {
    struct zt_graph *g;
    const struct zt_settler *settler;
    int node;
    int step; /* number of earlier calls */
    bool done;
    ZT_VEC(int) values;                 /* for the hook, preserved between calls */
    const struct zt_graph *counted;     /* the subgraph that `count` describes, NULL: none yet */
    const struct zt_lower_count *count; /* of one copy */
};

/* Expands `node` and marks it dead; the caller sorts the graph afterwards. */
bool zt_expand(struct zt_graph *g, int node, const struct zt_settler *settler, struct zt_err *err);
/* The subgraph in attribute `name` of the node. */
const struct zt_graph *zt_expand_subgraph(const struct zt_expansion *x, const char *name);
/* Fails when `iterations` iterations of the subgraph, each with `more` additional nodes, exceed the limit for one graph
 * (lower_count.h). A hook that knows its trip count calls this before the first iteration. */
bool zt_expand_fits(struct zt_expansion *x, const char *name, int64_t iterations, int more, struct zt_err *err);
/* Appends the subgraph's nodes with resolved rows. in[i] is the value for input i of the subgraph (-1: omitted). out[i]
 * is the value that output i must write; -1 is replaced by the id of the value that holds the output. */
bool zt_expand_copy(struct zt_expansion *x, const char *name, const int *in, int *out, struct zt_err *err);

/* Another graph to copy a subgraph into. */
struct zt_expand_target {
    struct zt_graph *g;
    const int *in;       /* by input of the subgraph */
    const int *captured; /* by outer value that the subgraph reads */
};
/* zt_expand_copy() into another graph. */
bool zt_expand_open(struct zt_expansion *x, const char *name, const struct zt_expand_target *to, int *out,
                    struct zt_err *err);

/* A node to append in the place of the expanded node. */
struct zt_expand_node {
    const char *op_type;
    const int *in;
    int in_count;
    const struct zt_attr *attrs;
    int attr_count;
};
/* Appends a node of ONNX's own domain. out[i] -1 is replaced by the id of a new value. */
bool zt_expand_emit(struct zt_expansion *x, const struct zt_expand_node *node, int *out, int out_count,
                    struct zt_err *err);
/* Appends a node of the domain "ztrain" with the expanded node's name. */
bool zt_expand_emit_own(struct zt_expansion *x, const struct zt_expand_node *node, const int *out, int out_count,
                        struct zt_err *err);

#endif
