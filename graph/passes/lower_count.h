/* Size of lowered functions and subgraphs (lower.h), computed and checked against a limit before nodes are copied: a
 * small file can ask for a very large graph. */
#ifndef ZT_GRAPH_PASSES_LOWER_COUNT_H
#define ZT_GRAPH_PASSES_LOWER_COUNT_H

#include "graph/passes/lower.h"

/* Limits for all lowered nodes of one graph. The file's own nodes do not count. */
enum { ZT_LOWER_NODES = 1 << 17, ZT_LOWER_BYTES = 64 * 1000 * 1000 };

/* Size of one copy of a subgraph with an empty name prefix. Function calls are included; a nested node with subgraphs
 * counts as one node. The members are doubles because counts can exceed every integer type. */
struct zt_lower_count {
    double nodes, bytes;
    double names;  /* bytes that each character of the name prefix adds */
    double bodies; /* nodes with subgraphs, of `nodes` */
};

/* Counts functions; each function is counted once. */
struct zt_lower_counter {
    const struct zt_functions *functions; /* NULL: none */
    const struct zt_op_table *table;
    struct zt_lower_count *of; /* by function; nodes -1: not counted yet */
};
void zt_lower_counter_init(struct zt_lower_counter *c, const struct zt_functions *functions,
                           const struct zt_op_table *table);
void zt_lower_counter_finish(struct zt_lower_counter *c);
struct zt_lower_count zt_lower_count_subgraph(struct zt_lower_counter *c, const struct zt_graph *body);
struct zt_lower_count zt_lower_count_function(struct zt_lower_counter *c, const struct zt_function *f);

/* Size of one node that an `expand` hook emits. */
struct zt_lower_count zt_lower_count_emitted(const char *op_type, int in_count, int out_count);

/* The function that node `n` calls; NULL when `n` is an operator. */
const struct zt_function *zt_lower_called(const struct zt_functions *functions, const struct zt_op_table *table,
                                          const struct zt_node *n);

/* Fails when `copies` times `count`, for node n, exceed the limit; the error names node, count and limit. `taken`: adds
 * them to g's totals. */
bool zt_lower_charge(struct zt_graph *g, const struct zt_node *n, const struct zt_lower_count *count, double copies,
                     bool taken, struct zt_err *err);

/* Size of one copy of the subgraph in attribute `name` of x->node. */
struct zt_lower_count zt_expand_count(struct zt_expansion *x, const char *name);

#endif
