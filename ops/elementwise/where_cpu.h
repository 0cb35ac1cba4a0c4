/* The CPU kernel of Where. */
#ifndef ZT_OPS_ELEMENTWISE_WHERE_CPU_H
#define ZT_OPS_ELEMENTWISE_WHERE_CPU_H

#include "graph/ir/op.h"

bool zt_where_cpu_supports(const struct zt_graph *g, int node);
bool zt_where_cpu_run(const struct zt_call *call, struct zt_err *err);

#define ZT_WHERE_CPU                                                                                                   \
    { .supports = zt_where_cpu_supports, .run = zt_where_cpu_run }

#endif
