/* The graph that a test builds and the errors of what it calls, both new for each test:
 *     tcase_add_checked_fixture(cases, make_graph, destroy_graph);
 * Included last: parameters of other headers are named `g` as well. */
#ifndef ZT_TESTS_GRAPH_FIXTURE_H
#define ZT_TESTS_GRAPH_FIXTURE_H

#include "base/err.h"
#include "graph/ir/graph.h"

#include <string.h>

static struct zt_graph *g;
static struct zt_err err;

static inline void make_graph(void) {
    g = zt_graph_create("test");
    err = (struct zt_err){ 0 };
}

static inline void destroy_graph(void) {
    zt_graph_destroy(g);
}

/* Whether one of the errors contains the words. */
static inline bool says(const char *words) {
    for (int i = 0; i < err.count; i++)
        if (strstr(err.text[i], words))
            return true;
    return false;
}

/* Nodes of an operator whose first input is `input`, -1 for any. */
static inline int count_ops(const char *op_type, int input) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++)
        count += strcmp(g->nodes[n]->op_type, op_type) == 0 && (input < 0 || g->nodes[n]->in[0] == input);
    return count;
}

/* The node that computes a value. */
static inline const struct zt_node *producer(int value) {
    return g->nodes[g->values[value]->producer];
}

#endif
