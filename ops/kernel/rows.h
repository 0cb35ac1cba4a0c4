/* The array of a family's rows: ops/FAMILY/rows.c lists them, one line each. */
#ifndef ZT_OPS_KERNEL_ROWS_H
#define ZT_OPS_KERNEL_ROWS_H

#include "graph/ir/op.h"

#include <stddef.h>

#define ZT_ROW_EXTERN(id)  extern const struct zt_op zt_op_##id;
#define ZT_ROW_ADDRESS(id) &zt_op_##id,

/* Defines zt_FAMILY_rows, NULL-terminated, of the rows zt_op_ID that ROWS(ROW) lists as ROW(ID). */
#define ZT_ROWS(family, ROWS)                                                                                          \
    ROWS(ZT_ROW_EXTERN)                                                                                                \
    extern const struct zt_op *const zt_##family##_rows[];                                                             \
    const struct zt_op *const zt_##family##_rows[] = { ROWS(ZT_ROW_ADDRESS) NULL };

#endif
