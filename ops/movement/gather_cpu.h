/* The [ZT_CPU] columns of Gather (elements of any size) and GatherGrad (float). */
#ifndef ZT_OPS_MOVEMENT_GATHER_CPU_H
#define ZT_OPS_MOVEMENT_GATHER_CPU_H

#include "graph/ir/op.h"

/* The functions of ZT_GATHER_CPU and ZT_GATHER_GRAD_CPU (struct zt_kernel). Shapes are those of the rows: data [..., K,
 * ...], indices of any shape. `run` fails on an index outside the axis. */
bool zt_gather_cpu_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_gather_cpu_run(const struct zt_call *call, struct zt_err *err);
bool zt_gather_grad_cpu_supports(const struct zt_graph *g, int node);
bool zt_gather_grad_cpu_run(const struct zt_call *call, struct zt_err *err);

#define ZT_GATHER_CPU                                                                                                  \
    { .prepare = zt_gather_cpu_prepare, .run = zt_gather_cpu_run }
#define ZT_GATHER_GRAD_CPU                                                                                             \
    { .supports = zt_gather_grad_cpu_supports, .prepare = zt_gather_cpu_prepare, .run = zt_gather_grad_cpu_run }

#endif
