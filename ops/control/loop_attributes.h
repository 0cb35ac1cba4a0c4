/* The attributes of ztrain.LoopRun and LoopRunGrad, read from the node. Their rows and kernels use it. */
#ifndef ZT_OPS_CONTROL_LOOP_ATTRIBUTES_H
#define ZT_OPS_CONTROL_LOOP_ATTRIBUTES_H

#include "graph/ir/op.h"

/* The attributes of a LoopRun or LoopRunGrad. */
struct zt_loop_shape {
    int64_t iterations;
    int states, slices, stacks, captured;
    const int64_t *reverse_in, *reverse_out;
    const struct zt_graph *body;
};
void zt_loop_shape_of(const struct zt_node *n, struct zt_loop_shape *to);
/* The address of the slice of iteration t. */
static inline const void *zt_loop_slice(const void *whole, int64_t bytes, int64_t iterations, int64_t t, bool reverse) {
    return (const char *)whole + bytes * (reverse ? iterations - 1 - t : t);
}

/* Input i of an iteration, after its number, and output i. */
static inline const struct zt_value *zt_loop_in(const struct zt_loop_shape *l, int i) {
    return l->body->values[l->body->inputs[1 + i]];
}
static inline const struct zt_value *zt_loop_out(const struct zt_loop_shape *l, int i) {
    return l->body->values[l->body->outputs[i]];
}

/* Further attributes of a LoopRunGrad. `graph` is the gradient of one iteration. Its inputs are those of the body, then
 * a cotangent for each of `states` and of `given`; its outputs are the gradients of `states`, `slices` and `captured`.
 * The node has the same cotangents as further inputs, of the final states (optional) and stacked, and the outputs of
 * the graph. */
struct zt_loop_gradient {
    const struct zt_graph *graph;
    const int64_t *states, *given, *slices, *captured; /* states of a float type; stacks that have a gradient; wanted */
    int state_count, given_count, slice_count, captured_count;
};
void zt_loop_gradient_of(const struct zt_node *n, struct zt_loop_gradient *to);

#endif
