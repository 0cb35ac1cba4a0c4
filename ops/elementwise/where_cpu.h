/* The CPU kernel of Where. */
#ifndef ZT_OPS_ELEMENTWISE_WHERE_CPU_H
#define ZT_OPS_ELEMENTWISE_WHERE_CPU_H

#include "graph/ir/op.h"

/* The functions of ZT_WHERE_CPU (struct zt_kernel). Supported are elements of 4 bytes and a result of rank 1 or more
 * with at least one element; the inputs broadcast. `run` does not fail. */
bool zt_where_cpu_supports(const struct zt_graph *g, int node);
bool zt_where_cpu_run(const struct zt_call *call, struct zt_err *err);

#define ZT_WHERE_CPU                                                                                                   \
    { .supports = zt_where_cpu_supports, .run = zt_where_cpu_run }

#endif
