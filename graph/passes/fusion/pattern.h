/* Pattern matching: finds groups of nodes that compute a given expression.
 *
 *     Mul(Mul(x, 0.5), Add(Erf(Div(x, 1.4142135624)), 1))          one way to write Gelu
 *
 *     Op(a, b)     a node of the standard op Op with these inputs. Add, Mul and Max match their two inputs in either
 *                  order; "..." at the end matches any further inputs
 *     v = Op(a)    the same; the node's output is named v
 *     x            a value: any value at its first occurrence, the same value afterwards
 *     0.5          a constant of one element, equal within the rounding of its type
 *     $c           a constant of one element, named c
 *     (a | b)      alternatives, tried from left to right
 *
 * The matcher backtracks over all alternatives. Between two nodes of a pattern it skips nodes without effect: Identity,
 * Casts to the value's own type, and Dropout that drops nothing. Patterns are constants in the source, so their size
 * bounds time and recursion depth for every graph. */
#ifndef ZT_GRAPH_PASSES_FUSION_PATTERN_H
#define ZT_GRAPH_PASSES_FUSION_PATTERN_H

#include "graph/ir/op.h"

enum { ZT_PATTERN_NODES = 32, ZT_PATTERN_NAMES = 24 };

/* A group of nodes that matches a pattern. */
struct zt_match {
    struct zt_graph *g;
    int root; /* the node that computes the result */
    int node[ZT_PATTERN_NODES], node_count;
    struct zt_pattern_name {
        const char *text; /* in the pattern, `length` bytes */
        int length, value;
        bool made; /* computed inside the group: not an input of it */
    } name[ZT_PATTERN_NAMES];
    int name_count;
};

/* Whether `node` is the root of a match that one node can replace: all nodes have one phase and stage, no other node
 * reads the values inside, and the inputs come from outside the group. */
bool zt_pattern_find(struct zt_graph *g, int node, const char *term, struct zt_match *to);

/* The value with this name; -1 if the matching alternative lacks the name. */
int zt_match_value(const struct zt_match *m, const char *name);
/* The node of `name = Op(...)`; NULL if the matching alternative lacks the name. */
const struct zt_node *zt_match_node(const struct zt_match *m, const char *name);
/* The number $name; `otherwise` if the matching alternative lacks the name. */
double zt_match_number(const struct zt_match *m, const char *name, double otherwise);
/* Whether both values have the same dtype and shape. */
bool zt_match_same(const struct zt_match *m, int a, int b);
/* Whether `value` (-1: none) has x's dtype and one element for each position along axes from..to-1 of x, with size 1
 * along the other axes. */
bool zt_match_along(const struct zt_match *m, int value, int x, int from, int to);
/* The output of the root. */
int zt_match_result(const struct zt_match *m);

/* Whether `value` is a constant of one element; *to becomes the element. */
bool zt_pattern_constant(const struct zt_graph *g, int value, double *to);

/* Replaces the group by one node that computes the result, and returns the node. The caller may set attributes and then
 * calls zt_match_done(). */
int zt_match_replace(struct zt_match *m, const char *op_type, const int *in, int in_count);
/* Resolves and infers a node that was added for the match. */
bool zt_match_done(struct zt_match *m, const struct zt_op_table *table, int node, struct zt_err *err);

/* A node to add in front of the group. */
struct zt_match_node {
    const char *op_type;
    const int *in;
    int in_count;
    const struct zt_match_list {
        const char *attr; /* name of an attribute of integers */
        const int64_t *at;
        int count;
    } * list;         /* NULL: no attribute */
    const char *flag; /* name of an attribute that is 1; NULL: none */
};
/* Adds a node with one new output in front of the group; folds it if its inputs are constants. Returns the new value;
 * -1: failed. */
int zt_match_before(struct zt_match *m, const struct zt_op_table *table, const struct zt_match_node *node,
                    struct zt_err *err);
/* `value` in another shape: the value itself or the input of its Reshape if that has the shape, else the output of a
 * new Reshape. -1: failed. */
int zt_match_reshape(struct zt_match *m, const struct zt_op_table *table, int value, const struct zt_shape *shape,
                     struct zt_err *err);
/* Whether a gradient may flow through the value: it depends on a trainable initializer, or on too many values to tell.
 */
bool zt_match_trains(const struct zt_match *m, int value);

#endif
