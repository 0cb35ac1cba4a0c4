/* Forms: what a group of nodes computes, written as a term and looked for in a graph.
 *
 *     Mul(Mul(x, 0.5), Add(Erf(Div(x, 1.4142135624)), 1))          one of the ways to write Gelu
 *
 *     Op(a, b)     a node of the standard's op Op with these inputs: Add, Mul and Max of two in either
 *                  order; "..." at the end: and
 *                  whatever inputs follow
 *     v = Op(a)    the same, and what the node makes is called v
 *     x            a value: any one where the name comes first, the same one where it comes again
 *     0.5          a constant of one element, equal within the rounding of its type
 *     $c           a constant of one element, called c
 *     (a | b)      either; what stands first is tried first
 *
 * Every way to fit the term is tried, the last choice changed first. Between two nodes of a term, nodes that do nothing
 * are looked through: Identity, Casts to the type a value has, Dropout that drops nothing. A term stands in the source,
 * so its size bounds time and recursion whatever the graph is like. */
#ifndef ZT_GRAPH_PASSES_PATTERN_H
#define ZT_GRAPH_PASSES_PATTERN_H

#include "graph/ir/op.h"

enum { ZT_PATTERN_NODES = 32, ZT_PATTERN_NAMES = 24 };

/* Where a form stands in a graph. */
struct zt_match {
    struct zt_graph *g;
    int root; /* the node that makes the result */
    int node[ZT_PATTERN_NODES], node_count;
    struct zt_pattern_name {
        const char *text; /* in the term, `length` bytes */
        int length, value;
        bool made; /* inside of the group: not an input of it */
    } name[ZT_PATTERN_NAMES];
    int name_count;
};

/* Whether `node` is the outermost node of the term and the group can be replaced by one node: all of it stands in one
 * phase and stage, nothing but the group reads what it makes inside, and its inputs come from outside. */
bool zt_pattern_find(struct zt_graph *g, int node, const char *term, struct zt_match *to);

/* The value that has the name; -1 where the alternative taken has no such name. */
int zt_match_value(const struct zt_match *m, const char *name);
/* The node of `name = Op(...)`; NULL without. */
const struct zt_node *zt_match_node(const struct zt_match *m, const char *name);
/* The number of $name; `otherwise` where the alternative taken has no such name. */
double zt_match_number(const struct zt_match *m, const char *name, double otherwise);
/* Whether both values have dtype and shape in common. */
bool zt_match_same(const struct zt_match *m, int a, int b);
/* Whether `value` (-1: none) is one number for every place along axes [from, to) of x, has its type, and nothing along
 * the others. */
bool zt_match_along(const struct zt_match *m, int value, int x, int from, int to);
/* What the outermost node makes. */
int zt_match_result(const struct zt_match *m);

/* Whether `value` is known before running and has one element, which goes to *to. */
bool zt_pattern_constant(const struct zt_graph *g, int value, double *to);

/* Puts a node in the place of the whole group: it makes the result. Returns it, so
 * that attributes can be set; then zt_match_done. */
int zt_match_replace(struct zt_match *m, const char *op_type, const int *in, int in_count);
/* Resolves and infers the replacing node, or one that was added in front of it. */
bool zt_match_done(struct zt_match *m, const struct zt_op_table *table, int node, struct zt_err *err);
/* For an input that must change its form: adds a node with one new output in front of the group, computes it at once
 * where its inputs are constants, and returns the new value; -1: failed. `list`, where not NULL, is an attribute
 * of integers. */
struct zt_match_list {
    const char *attr;
    const int64_t *at;
    int count;
};
int zt_match_before(struct zt_match *m, const struct zt_op_table *table, const char *op_type, const int *in,
                    int in_count, const struct zt_match_list *list, struct zt_err *err);
/* The value reshaped; itself, or what it was reshaped from, where that has the shape. */
int zt_match_reshape(struct zt_match *m, const struct zt_op_table *table, int value, const struct zt_shape *shape,
                     struct zt_err *err);
/* Whether a gradient may flow through the value: something that trains leads to it, or too much does to tell. */
bool zt_match_trains(const struct zt_match *m, int value);

#endif
