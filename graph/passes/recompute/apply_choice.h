/* The set of nodes to recompute, and the rewrite of the graph that follows from it. */
#ifndef ZT_GRAPH_PASSES_RECOMPUTE_APPLY_CHOICE_H
#define ZT_GRAPH_PASSES_RECOMPUTE_APPLY_CHOICE_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* Facts about the forward phase, computed once. */
struct zt_forward {
    const struct zt_graph *g;
    int count;            /* nodes 0..count - 1 are the forward phase */
    bool *root;           /* by value: read outside the graph's nodes */
    bool *from_params;    /* by value: zt_graph_from_params */
    bool *fixed;          /* by node: cannot be recomputed, or need not be */
    bool *matrix_product; /* by node: many FLOPs per element (a matrix product or convolution) */
    int64_t *bytes;       /* by value; 0 for values that no node computes */
};

/* The forward nodes that are recomputed. */
struct zt_choice {
    int *segment;     /* by node: segment number, -1: none */
    bool *recomputed; /* by node */
    double work;      /* of all clones (zt_op_work) */
    int64_t peak;     /* zt_recompute_peak of the rewritten graph */
};

/* By value: whether the value stays in memory although its node may be recomputed. Free with free(). */
bool *zt_choice_saved_values(const struct zt_forward *f, const struct zt_choice *c);
/* By node: the backward node before which the node's clone is placed; -1: no clone is needed. `saved` comes from
 * zt_choice_saved_values(). Free with free(). */
int *zt_choice_clones(const struct zt_forward *f, const struct zt_choice *c, const bool *saved);

/* Rewrites `g`, which is f->g or a copy of it, and sets c->work. */
bool zt_choice_apply(const struct zt_forward *f, struct zt_choice *c, struct zt_graph *g, struct zt_err *err);

#endif
