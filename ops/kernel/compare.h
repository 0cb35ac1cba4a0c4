/* Comparing elements of a tensor exactly, whatever their type: for TopK and Unique. */
#ifndef ZT_OPS_KERNEL_COMPARE_H
#define ZT_OPS_KERNEL_COMPARE_H

#include "graph/ir/dtype.h"

/* -1, 0 or 1 as element i is less than, equal to or greater than element j; a NaN is greater than any number and equal
 * to a NaN. */
int zt_compare_elements(enum zt_dtype dtype, const void *data, int64_t i, int64_t j);

#endif
