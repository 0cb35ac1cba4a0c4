/* How many nodes and bytes bodies take when they are written out (graph/passes/lower.h): counted, and held against the
 * limit of a graph, before anything is copied. Small files can ask for many. */
#ifndef ZT_GRAPH_PASSES_LOWER_COUNT_H
#define ZT_GRAPH_PASSES_LOWER_COUNT_H

#include "graph/passes/lower.h"

/* What all bodies together may take in one graph, the file's own nodes not counted. */
enum { ZT_LOWER_NODES = 1 << 17, ZT_LOWER_BYTES = 64 * 1000 * 1000 };

/* Of a body behind an empty name, calls of functions included, nodes with bodies counted as one node each: `names` is
 * how often the characters of a name in front of it are stored. Numbers that no integer holds stay meaningful. */
struct zt_lower_count {
    double nodes, bytes, names, bodies; /* bodies: of the nodes, those with bodies */
};

/* Keeps the count of each function. */
struct zt_lower_counter {
    const struct zt_functions *functions; /* NULL: none */
    const struct zt_op_table *table;
    struct zt_lower_count *of; /* by function; nodes -1: not counted yet */
};
void zt_lower_counter_init(struct zt_lower_counter *c, const struct zt_functions *functions,
                           const struct zt_op_table *table);
void zt_lower_counter_finish(struct zt_lower_counter *c);
struct zt_lower_count zt_lower_count_function_body(struct zt_lower_counter *c, const struct zt_graph *body);
struct zt_lower_count zt_lower_count_function(struct zt_lower_counter *c, const struct zt_function *f);

/* One node of a row's own making. */
struct zt_lower_count zt_lower_count_emitted(const char *op_type, int in_count, int out_count);

/* The function that a node calls, NULL where it is an operator. */
const struct zt_function *zt_lower_called(const struct zt_functions *functions, const struct zt_op_table *table,
                                          const struct zt_node *n);

/* Fails where `copies` times `count` for node n go beyond the limit, naming node, count and limit. `taken`: they are
 * written out now, so that g has so much less left. */
bool zt_lower_charge(struct zt_graph *g, const struct zt_node *n, const struct zt_lower_count *count, double copies,
                     bool taken, struct zt_err *err);

/* Of one copy of the body that attribute `name` of x->node holds. */
struct zt_lower_count zt_expand_count(struct zt_expansion *x, const char *name);

#endif
