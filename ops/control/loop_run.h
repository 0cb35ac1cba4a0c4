/* Loop and Scan that run as loops: what ops/control/control.c makes of one that would be too large written out.
 *
 *     ztrain.LoopRun(v.., x.., c..) -> (v.., s..)            for (t = 0; t < T; t++) { v.., s[t].. = body(t, v..,
 * x[t].., c..); }
 *
 * v: states, carried from turn to turn, of one type and shape. x: cut along axis 0, a slice a turn; c: the same in all
 * turns; s: stacked along axis 0. Where a direction says so, turn t has slice T - 1 - t. The body is a graph of ours,
 * inferred, with the inputs t (int64), v, x[t], c and the outputs v, s[t]. */
#ifndef ZT_OPS_CONTROL_LOOP_RUN_H
#define ZT_OPS_CONTROL_LOOP_RUN_H

#include "graph/passes/lower.h"

/* Nodes times turns that one loop may run, those of loops inside included; and from how many on it runs as a loop:
 * fewer are written out, so that all passes see them. */
enum { ZT_LOOP_RUNS = 1 << 23, ZT_LOOP_WRITTEN = 4096 };

/* A loop, in values of the graph that it stands in. */
struct zt_loop {
    bool condition; /* of a Loop: its body has the turn and the condition in front of the states, and hands one out */
    int64_t turns;
    int states, slices, stacks;
    const int *state, *slice;                                     /* v at the beginning; x */
    const int64_t *axis_in, *axis_out, *reverse_in, *reverse_out; /* by slice, by stack */
    const int *out; /* ids of the final states, then of the stacks; -1: not wanted */
};

/* Appends the loop of x->node as one node where it is large and can run so (or runs it, see zt_loop_alone): *runs. A
 * loop of more than ZT_LOOP_RUNS fails, and one that is too large to be written out and cannot run as a loop, with the
 * reason. `more`: nodes that a turn takes beside its body when it is written out. */
bool zt_loop_try(struct zt_expansion *x, const struct zt_loop *loop, int more, bool *runs, struct zt_err *err);

/* Runs a Loop turn by turn, in an eager run of which the results alone count (x->settler->run); l->turns is the most,
 * and the condition has been true. The node's outputs become known values. */
bool zt_loop_alone(struct zt_expansion *x, const struct zt_loop *l, struct zt_err *err);

/* How a LoopRun or LoopRunGrad is written in attributes. */
struct zt_loop_shape {
    int64_t turns;
    int states, slices, stacks, captured;
    const int64_t *reverse_in, *reverse_out;
    const struct zt_graph *body;
};
void zt_loop_shape_of(const struct zt_node *n, struct zt_loop_shape *to);
/* Address of the slice of turn t. */
static inline const void *zt_loop_slice(const void *whole, int64_t bytes, int64_t turns, int64_t t, bool reverse) {
    return (const char *)whole + bytes * (reverse ? turns - 1 - t : t);
}

/* What input i of a turn behind its number, and output i, is. */
static inline const struct zt_value *zt_loop_in(const struct zt_loop_shape *l, int i) {
    return l->body->values[l->body->inputs[1 + i]];
}
static inline const struct zt_value *zt_loop_out(const struct zt_loop_shape *l, int i) {
    return l->body->values[l->body->outputs[i]];
}

/* What a LoopRunGrad has beside that. `graph` is a turn back: its inputs are those of the body, then a cotangent for
 * each of `states` and of `given`; its outputs the gradients of `states`, `slices`, `captured`. Inputs of the node go
 * on with the same cotangents, of the final states (may be missing) and stacked; its outputs are those of the graph. */
struct zt_loop_gradient {
    const struct zt_graph *graph;
    const int64_t *states, *given, *slices, *captured; /* states of a float type; stacks that have a gradient; wanted */
    int state_count, given_count, slice_count, captured_count;
};
void zt_loop_gradient_of(const struct zt_node *n, struct zt_loop_gradient *to);

/* Kernels. */
bool zt_loop_run_prepare_ref(struct zt_prepare *p, struct zt_err *err);
bool zt_loop_run_prepare_cpu(struct zt_prepare *p, struct zt_err *err);
bool zt_loop_grad_prepare_ref(struct zt_prepare *p, struct zt_err *err);
bool zt_loop_grad_prepare_cpu(struct zt_prepare *p, struct zt_err *err);
bool zt_loop_run(const struct zt_call *call, struct zt_err *err);
bool zt_loop_run_back(const struct zt_call *call, struct zt_err *err);
void zt_loop_release(void *state);

#endif
