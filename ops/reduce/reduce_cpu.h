/* The [ZT_CPU] column of reductions (formulas in reduce.c). */
#ifndef ZT_OPS_REDUCE_REDUCE_CPU_H
#define ZT_OPS_REDUCE_REDUCE_CPU_H

#include "graph/ir/op.h"

/* The functions of ZT_REDUCE_CPU (struct zt_kernel). Supported is a float input with at least one element, over any
 * axes. `prepare` chooses the loop and sets the workspace. */
bool zt_reduce_cpu_supports(const struct zt_graph *g, int node);
bool zt_reduce_cpu_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_reduce_cpu_run(const struct zt_call *call, struct zt_err *err);

#define ZT_REDUCE_CPU                                                                                                  \
    { .supports = zt_reduce_cpu_supports, .prepare = zt_reduce_cpu_prepare, .run = zt_reduce_cpu_run }

#endif
