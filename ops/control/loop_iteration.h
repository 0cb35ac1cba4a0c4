/* A graph that is run many times, its inputs at other addresses each time: an iteration of a loop
 * (ops/control/loop_kernel.c).
 *
 * Nodes that only read inputs which stay the same (weights in the layout that a kernel wants) run once, before the
 * first iteration. Everything a run needs lies in workspace that the caller owns. */
#ifndef ZT_OPS_CONTROL_LOOP_ITERATION_H
#define ZT_OPS_CONTROL_LOOP_ITERATION_H

#include "graph/ir/op.h"

struct zt_loop_iteration; /* what is prepared: back ends, layouts, memory; read only */
struct zt_loop_at;        /* a run of it, in the caller's workspace */

/* `body` is inferred and stays the caller's. stays[i]: input i is the same in all iterations. NULL on failure. */
struct zt_loop_iteration *zt_loop_iteration_create(const struct zt_graph *body, const bool *stays, enum zt_backend fast,
                                                   int threads, struct zt_err *err);
void zt_loop_iteration_destroy(struct zt_loop_iteration *iteration); /* NULL is harmless */
/* Of the workspace that begin is given, a multiple of 64. */
size_t zt_loop_iteration_bytes(const struct zt_loop_iteration *iteration);

/* Runs what is the same in all iterations. in[i]: where input i is, of those that stay. `like`: threads of the call. */
struct zt_loop_at *zt_loop_iteration_begin(const struct zt_loop_iteration *iteration, const struct zt_call *like,
                                           void *workspace, const void *const *in, struct zt_err *err);
/* One iteration. Output i is then at zt_loop_iteration_out(at, in, i), until the next. */
bool zt_loop_iteration_run(struct zt_loop_at *at, const void *const *in, struct zt_err *err);
const void *zt_loop_iteration_out(const struct zt_loop_at *at, const void *const *in, int i);

#endif
