/* Lowering: calls of model-local functions, and nodes that hold bodies (If, Loop, Scan), become plain nodes.
 *
 *     call f(a, b)                      ->  the nodes of f, "call/inner" by name, reading a and b
 *     If(c) then { .. } else { .. }     ->  the nodes of one branch, once c is known
 *     Loop(n, c, v) { .. }              ->  the nodes of its body, once a turn: "loop#0/inner", "loop#1/inner" ...;
 *                                           where these would be many, one node that runs as a loop
 * (ops/control/loop_run.h)
 *
 * Calls go before rows are resolved. A node with a body waits until inference, or an eager run, reaches it: what it
 * must know is known then or the model is refused. Either way what is left is a straight line of ordinary nodes, which
 * passes, gradients and plans need not tell from any other. */
#ifndef ZT_GRAPH_PASSES_LOWER_H
#define ZT_GRAPH_PASSES_LOWER_H

#include "base/vec.h"
#include "graph/ir/functions.h"
#include "graph/ir/graph.h"
#include "graph/ir/op.h"

struct zt_lower_count;

/* Puts the nodes of each called function in the place of the call. A function that implements an operator of ONNX's own
 * domain stays unused where the table has a row: ONNX has it compute the same, and ours is the one with kernels. */
bool zt_pass_lower(struct zt_graph *g, const struct zt_op_table *table, struct zt_err *err);

/* Appends the nodes of every body in g once, those of bodies inside included, connected to nothing: for looking at, not
 * for running. */
bool zt_pass_open_bodies(struct zt_graph *g, const struct zt_op_table *table, struct zt_err *err);

/* ---- nodes with bodies ---- */

/* One node on its way. A row's expand hook is called until it sets `done`; the nodes that a call appended are settled
 * (inferred, or run) before the next. */
struct zt_settler {
    void *with;
    /* Given the appended nodes, in an order that can be run: infers or runs them. */
    bool (*settle)(void *with, int first, int last, struct zt_err *err);
    /* Eager runs whose results alone count, not the nodes that made them: runs a graph beside the run's own. Its values
     * without a producer have data, what it computes lies in its arena. NULL: other runs. */
    bool (*run)(void *with, struct zt_graph *g, struct zt_err *err);
};
struct zt_expansion {
    struct zt_graph *g;
    const struct zt_settler *settler;
    int node;
    int step; /* calls before this one */
    bool done;
    ZT_VEC(int) values;                 /* the hook's own, from call to call */
    const struct zt_graph *counted;     /* the body of which `count` is, NULL: none yet */
    const struct zt_lower_count *count; /* of one copy */
};

/* Expands `node` and marks it dead; the caller sorts when all is done. */
bool zt_expand(struct zt_graph *g, int node, const struct zt_settler *settler, struct zt_err *err);
/* The body that attribute `name` of the node holds. */
const struct zt_graph *zt_expand_function_body(const struct zt_expansion *x, const char *name);
/* Fails where so many turns of the body, with `more` nodes of the row's own in each, would make the graph larger than a
 * graph may become (graph/passes/lower_count.h). A hook that knows the number of turns asks before the first one. */
bool zt_expand_fits(struct zt_expansion *x, const char *name, int64_t turns, int more, struct zt_err *err);
/* Appends the body's nodes, rows resolved. in[i] is what its input i reads (as many as it has, -1: omitted); out[i] the
 * value that its output i makes, or -1: it becomes the value that holds that output. */
bool zt_expand_copy(struct zt_expansion *x, const char *name, const int *in, int *out, struct zt_err *err);
/* The same into another graph, whose values captured[i] stand for what the body takes from outside. */
bool zt_expand_open(struct zt_expansion *x, const char *name, struct zt_graph *to, const int *in, const int *captured,
                    int *out, struct zt_err *err);
/* Appends a node of ONNX's own domain in the node's place; where out[i] is -1 it makes a new value, whose id is put
 * there. `attr`: its attribute, NULL: none. */
bool zt_expand_emit(struct zt_expansion *x, const char *op_type, const int *in, int in_count, int *out, int out_count,
                    const struct zt_attr *attr, struct zt_err *err);
/* Appends a node of our own in the node's place, with the node's name. */
bool zt_expand_emit_own(struct zt_expansion *x, const char *op_type, const int *in, int in_count, const int *out,
                        int out_count, const struct zt_attr *attrs, int attr_count, struct zt_err *err);

#endif
