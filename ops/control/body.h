/* A subgraph as a graph of its own, inferred, for the nodes that run subgraphs (ops/control/loop.h, if.h). What the
 * subgraph captures becomes an input, of a list its tensors; known numbers become constants. */
#ifndef ZT_OPS_CONTROL_BODY_H
#define ZT_OPS_CONTROL_BODY_H

#include "graph/passes/lower.h"

/* Bytes that folding a node of a body may make. */
enum { ZT_BODY_FOLD = 1 << 20 };

/* A graph while it is built. */
struct zt_body {
    struct zt_expansion *x;
    struct zt_graph *g;
    int *captured; /* values of x->g that the inputs for captured values read, in order */
    int captured_count;
    struct zt_err *why; /* why it cannot be built */
};

/* Begins an empty graph in the arena of x->g, to which what is expanded in it is charged. `inputs`: room for inputs
 * beside the captured values. */
void zt_body_begin(struct zt_body *b, struct zt_expansion *x, int inputs, struct zt_err *why);
/* Adds an input and returns its id. */
int zt_body_input(struct zt_body *b, const char *name, enum zt_dtype dtype, const struct zt_shape *shape);
/* Copies the nodes of the subgraph in attribute `name`. in: by input of the subgraph. Returns the ids of its outputs,
 * in the arena; NULL on failure. */
int *zt_body_open(struct zt_body *b, const char *name, const int *in);
/* Infers the graph. */
bool zt_body_infer(struct zt_body *b);
/* Keeps the nodes on which the outputs depend. Fails for nodes that differ from run to run. */
bool zt_body_prune(struct zt_body *b);
/* Ends the building. The graph is settled where `ok`; NULL otherwise. */
const struct zt_graph *zt_body_end(struct zt_body *b, bool ok);

#endif
