/* Loop and Scan as one node that runs as a loop, for loops that would be too large as copies of their body.
 *
 *     ztrain.LoopRun(v.., x.., c..) -> (v.., s..)     for (t = 0; t < T; t++) { v.., s[t].. = body(t, v.., x[t]..,
 * c..); }
 *
 * v are the states, whose type and shape stay the same. x are inputs sliced along axis 0, one slice an iteration; c are
 * inputs that every iteration reads; s are outputs stacked along axis 0. A reversed input or output has slice T - 1 - t
 * in iteration t. The body is an inferred graph with inputs t (int64), v, x[t], c and outputs v, s[t]. */
#ifndef ZT_OPS_CONTROL_LOOP_H
#define ZT_OPS_CONTROL_LOOP_H

#include "graph/passes/lower.h"
#include "ops/control/loop_attributes.h"

/* Limits in nodes times iterations, nested loops included: the most that one loop may run, and the least that runs as a
 * loop. Smaller loops are copied out, so that all passes see their nodes. ZT_LOOP_BOUND: the most iterations, where
 * data say how many there are. */
enum { ZT_LOOP_RUNS = 1 << 23, ZT_LOOP_WRITTEN = 4096, ZT_LOOP_BOUND = 4096 };

/* A loop, in values of the graph that holds it. */
struct zt_loop {
    bool condition; /* Loop: the body has the iteration and the condition before the states, and returns a condition */
    int64_t iterations;
    int states, slices, stacks;
    const int *state, *slice;                                     /* v at the beginning; x */
    const int64_t *axis_in, *axis_out, *reverse_in, *reverse_out; /* by slice, by stack */
    const int *out; /* ids of the final states, then of the stacks; -1: not wanted */
};

/* Appends the loop of x->node as one node, or runs it (zt_loop_alone), where it is large and can run as a loop: *runs.
 * Fails for loops beyond ZT_LOOP_RUNS, and for those too large to copy out that cannot run as a loop, with the reason.
 * `more`: nodes that a copied iteration has beside the body. */
bool zt_loop_try(struct zt_expansion *x, const struct zt_loop *loop, int more, bool *runs, struct zt_err *err);

/* Runs a Loop iteration by iteration, for eager runs that need results and no nodes (x->settler->run). l->iterations is
 * the largest trip count; the initial condition is true. The outputs of the node become known values. */
bool zt_loop_alone(struct zt_expansion *x, const struct zt_loop *l, struct zt_err *err);

/* The gradient rule of LoopRun; adds a LoopRunGrad. */
bool zt_loop_gradient(struct zt_grad *b, int node, struct zt_err *err);

/* Kernels (loop_run.c). */
bool zt_loop_run_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_loop_grad_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_loop_run(const struct zt_call *call, struct zt_err *err);
bool zt_loop_run_back(const struct zt_call *call, struct zt_err *err);
void zt_loop_release(void *state);

#endif
