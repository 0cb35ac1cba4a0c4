/* The table of operators: one line a row in table.c. */
#ifndef ZT_OPS_TABLE_H
#define ZT_OPS_TABLE_H

#include "graph/ir/op.h"
#include "graph/passes/fusion/apply_patterns.h"

extern const struct zt_op_table zt_ops;

/* Fusion patterns, NULL-terminated; ops/fuse_*.c. */
extern const struct zt_pattern *const zt_patterns[];

#endif
