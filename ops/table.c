/* The table of operators: the rows of every family (ops/FAMILY/rows.c). */
#include "ops/table.h"

#include "ops/families.h"

#include <stddef.h>

#define DECLARE(family) extern const struct zt_op *const zt_##family##_rows[];
#define ADDRESS(family) zt_##family##_rows,

ZT_FAMILIES(DECLARE)

static const struct zt_op *const *const families[] = { ZT_FAMILIES(ADDRESS) NULL };
const struct zt_op_table zt_ops = { families };
