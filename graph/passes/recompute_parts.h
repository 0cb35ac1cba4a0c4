/* Between recompute.c (the rewrite) and recompute_choose.c (what to rewrite). */
#ifndef ZT_GRAPH_PASSES_RECOMPUTE_PARTS_H
#define ZT_GRAPH_PASSES_RECOMPUTE_PARTS_H

#include "graph/passes/recompute.h"

/* The forward phase as it is looked at. */
struct zt_forward {
    const struct zt_graph *g;
    int count;          /* nodes 0..count - 1 are the forward phase */
    bool *root;         /* by value: read by others than nodes */
    bool *from_params;  /* by value: zt_graph_from_params */
    bool *fixed, *dear; /* by node: cannot or need not be run again; is a product, not elementwise */
    int64_t *bytes;     /* by value; 0 where no node makes it */
};

/* A choice: which segment (-1: none) each forward node stands in, and whether it is made again. */
struct zt_choice {
    int *segment;
    bool *again;
    double flops; /* of all clones */
    int64_t peak;
};

/* By value: whether it stays although its node is made again. By node: the backward node that its clone stands before,
 * -1: none is wanted. Free both with free(). */
bool *zt_choice_cached(const struct zt_forward *f, const struct zt_choice *c);
int *zt_choice_clones(const struct zt_forward *f, const struct zt_choice *c, const bool *kept);

/* Rewrites `g`, f->g itself or a copy of it, by the choice and sets its flops. */
bool zt_choice_apply(const struct zt_forward *f, struct zt_choice *c, struct zt_graph *g, struct zt_err *err);

/* The choice that `how` asks for; its arrays are to be freed. */
bool zt_choose(const struct zt_forward *f, const struct zt_recompute *how, const struct zt_recompute_ends *ends,
               struct zt_choice *to, struct zt_err *err);

#endif
