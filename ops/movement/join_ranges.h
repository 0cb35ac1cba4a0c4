/* ztrain.JoinRanges: ranges of adjacent elements of its inputs, one behind the other, in a tensor of shape `shape`.
 * Range i is of input inputs[i], from element starts[i] on, counts[i] elements long. */
#ifndef ZT_OPS_MOVEMENT_JOIN_RANGES_H
#define ZT_OPS_MOVEMENT_JOIN_RANGES_H

#include "graph/ir/op.h"

enum { ZT_MOST_RANGES = 64 };

struct zt_ranges {
    int count;
    int64_t input[ZT_MOST_RANGES], start[ZT_MOST_RANGES], size[ZT_MOST_RANGES];
};

#endif
