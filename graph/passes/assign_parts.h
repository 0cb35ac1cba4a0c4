/* Inside the assignment: assign.c (back ends, layouts and reorders, node by node), which has settle_layouts.c look at
 * the reorders once more; both prepare kernels (assign_prepare.c). */
#ifndef ZT_GRAPH_PASSES_ASSIGN_PARTS_H
#define ZT_GRAPH_PASSES_ASSIGN_PARTS_H

#include "graph/passes/passes.h"

struct zt_assignment {
    struct zt_graph *g;
    const struct zt_op_table *table;
    enum zt_backend fast;
    int threads;
    struct zt_device *device;
    struct zt_prepared *prepared; /* by node */
    int room;
    int first_reorder; /* nodes from this one on are reorders */
    int *plain;        /* values that others than nodes read */
    int plain_count;
    struct zt_err *err;
};

/* ---- assign_prepare.c ---- */

bool zt_layout_same(const struct zt_layout *a, const struct zt_layout *b);

/* Prepares the kernel of a node: layouts are those of its inputs, then those of its outputs, as prepare has them;
 * settled: they stay. */
bool zt_assign_prepare(const struct zt_assignment *a, int node, const struct zt_layout **layouts, bool settled,
                       struct zt_prepared *to);

/* ---- settle_layouts.c ---- */

/* Takes out reorder nodes where their producer can write what they would, or their readers read what they do, and views
 * that copy because their input is not plain become views. Nodes stand where they stood; dead ones are marked. */
bool zt_assign_settle(struct zt_assignment *a);

#endif
