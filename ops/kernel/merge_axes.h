/* Merging of adjacent axes: a walk over tensors needs no more axes than their element steps differ in. */
#ifndef ZT_OPS_KERNEL_MERGE_AXES_H
#define ZT_OPS_KERNEL_MERGE_AXES_H

#include "graph/ir/op.h"

/* Drops axes of one element, and merges neighbouring axes where every tensor takes one step along the outer axis for
 * dim steps along the inner one. Works in place; returns the number of axes left, 0 for a single element. step[t][k]:
 * elements from one index of axis k to the next in tensor t, 0 where tensor t repeats. */
int zt_merge_axes(int axes, int64_t *dim, int tensors, int64_t *const step[]);

/* The same for a row-major tensor of at least one element whose axes fall into two kinds: only adjacent axes of one
 * kind merge. Writes the merged lengths to `dim` and their kinds to `is_marked`; returns the number of axes. */
int zt_merge_marked_axes(const struct zt_shape *shape, const bool *marked, int64_t dim[ZT_MAX_RANK],
                         bool is_marked[ZT_MAX_RANK]);

#endif
