/* Preparation of one node's kernel, and the state that the assignment keeps while it runs. */
#ifndef ZT_GRAPH_PASSES_ASSIGN_PREPARE_KERNEL_H
#define ZT_GRAPH_PASSES_ASSIGN_PREPARE_KERNEL_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* The result of struct zt_kernel's `prepare` for one node. */
struct zt_prepared {
    void *state;                  /* for zt_call.state */
    void (*release)(void *state); /* frees `state`; NULL: nothing to free */
    size_t workspace_bytes;
    bool can_accumulate;
    unsigned free_in, free_out; /* as in struct zt_prepare */
    struct zt_path path;
};

/* The assignment of one graph (assign.h). */
struct zt_assignment {
    struct zt_graph *g;
    const struct zt_op_table *table;
    enum zt_backend fast;
    int threads;
    struct zt_device *device;
    struct zt_prepared *prepared; /* by node */
    int room;                     /* entries of `prepared` */
    int first_reorder;            /* nodes from this index on are reorders */
    int *plain;                   /* values that are read outside the graph's nodes */
    int plain_count;
    struct zt_err *err;
};

/* Whether two layouts are equal; NULL is the plain layout. */
bool zt_layout_same(const struct zt_layout *a, const struct zt_layout *b);

/* Prepares the kernel of `node` on the node's back end. `layouts` holds the layouts of the inputs, then of the outputs;
 * `prepare` replaces them by those it chooses. With `settled`, the layouts are final and stay. */
bool zt_prepare_kernel(const struct zt_assignment *a, int node, const struct zt_layout **layouts, bool settled,
                       struct zt_prepared *to);

#endif
