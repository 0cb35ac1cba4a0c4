/* The chains of fused elementwise nodes of a graph. */
#ifndef ZT_TESTS_OPS_ELEMENTWISE_ELEMENTWISE_STEPS_H
#define ZT_TESTS_OPS_ELEMENTWISE_ELEMENTWISE_STEPS_H

#include "base/text.h"
#include "graph/ir/graph.h"

#include <string.h>

/* "Add Tanh; Mul Neg": the steps of all chains. */
static inline void fused_steps(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        if (strcmp(g->nodes[n]->op_type, "FusedElementwise") != 0)
            continue;
        const struct zt_graph *steps = zt_node_attr(g->nodes[n], "steps")->graph;
        for (int k = 0; k < steps->node_count; k++)
            zt_text_add(to, "%s%s", k ? " " : to->at ? "; " : "", steps->nodes[k]->op_type);
    }
}

#endif
