/* Copies of channels, which are lanes of groups of adjacent channels (struct zt_planes, ops/cpu/blocked_layout.h). */
#ifndef ZT_OPS_MOVEMENT_SIMD_GATHER_LANES_H
#define ZT_OPS_MOVEMENT_SIMD_GATHER_LANES_H

#include "graph/ir/op.h"
#include "ops/movement/simd/simd_shuffle.h"

/* One group of a sample: lane l of every pixel is lane lane[l] of the group that begins at plane[l]; from `used` on it
 * is 0, where a pixel has `vector` lanes of its own. */
struct zt_lanes {
    const char *plane[ZT_SHUFFLE_VECTOR];
    int lane[ZT_SHUFFLE_VECTOR], used, vector;
    int64_t pixels, step; /* elements from pixel to pixel, there and here */
    size_t bytes;         /* of an element: 1, 2, 4, 8 */
    char *to;
};
void zt_gather_lanes(const struct zt_lanes *g);

/* The channels of `to` are those of part[0], part[1] ..., one after the other, from channel `first` on. All tensors are
 * blocked, in blocks of one size. */
void zt_join_channels(int threads, const struct zt_view *to, const struct zt_view *part, int64_t first);

/* Whether ranges that begin or end within blocks are copied in vectors here, for tensors of this type. */
bool zt_joins_within_blocks(enum zt_dtype dtype);
/* Whether a tensor is blocked, and channel `first` or its last one is within a block. */
bool zt_is_within_block(const struct zt_view *v, int64_t first);

#endif
