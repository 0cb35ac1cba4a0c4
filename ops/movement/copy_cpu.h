/* The [ZT_CPU] column of Where. Other ops that move elements use zt_copy_strided, which is fast itself. */
#ifndef ZT_OPS_MOVEMENT_COPY_CPU_H
#define ZT_OPS_MOVEMENT_COPY_CPU_H

#include "graph/ir/op.h"

bool zt_where_cpu_supports(const struct zt_graph *g, int node);
bool zt_where_cpu_run(const struct zt_call *call, struct zt_err *err);

#define ZT_MOVE_CPU(id)                                                                                                \
    { .supports = zt_##id##_cpu_supports, .run = zt_##id##_cpu_run }

#endif
