/* The range of a tensor that lies on several ranks. */
#ifndef ZT_OPS_QUANTIZE_RANGE_OVER_RANKS_H
#define ZT_OPS_QUANTIZE_RANGE_OVER_RANKS_H

#include "graph/ir/kernel.h"

/* Makes ends[0] and ends[1], the lowest and highest element here, those over the ranks; a rank of which no row counts
 * has +infinity and -infinity. group: NULL is one rank. Collective. */
static inline bool zt_range_over_ranks(const struct zt_group *group, float ends[2], struct zt_err *err) {
    double largest[2] = { -(double)ends[0], (double)ends[1] };
    if (group && !group->max(group->with, largest, 2, err))
        return false;
    ends[0] = (float)-largest[0];
    ends[1] = (float)largest[1];
    return true;
}

#endif
