/* Graphs made by hand, for tests of passes and plans. All abort the test on an error of their own. */
#ifndef ZT_TESTS_GRAPH_NET_H
#define ZT_TESTS_GRAPH_NET_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

#include <stdint.h>

#define SHAPE(...)                                                                                                     \
    (&(struct zt_shape){ .rank = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { __VA_ARGS__ } })
#define SCALAR (&(struct zt_shape){ .rank = 0 })

/* A graph input. */
int net_input(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape);
/* A trainable float initializer with contents that are a function of its name, in -0.5..0.5. */
int net_param(struct zt_graph *g, const char *name, const struct zt_shape *shape);
/* A node with one output, called after its op and `out`; inputs end with -2, -1 is omitted. Not resolved. */
int net_node(struct zt_graph *g, const char *op, const char *out, ...);
#define NET(g, op, out, ...) net_node((g), (op), (out), __VA_ARGS__, -2)
/* Ops are "Relu" or "ztrain.CrossEntropy". The last node. */
struct zt_node *net_last(struct zt_graph *g);

/* Resolves and infers nodes that are not yet, in order. */
void net_infer(struct zt_graph *g, const struct zt_op_table *table);

/* One line a node, "F name: Op(in: dtype[shape], ...) -> out: ..."; free with free(). */
char *net_text(const struct zt_graph *g);

#endif
