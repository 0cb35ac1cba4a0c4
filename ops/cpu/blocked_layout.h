/* Layouts of activations on the CPU (layout.h), for kernels that work on vectors of channels. */
#ifndef ZT_OPS_CPU_BLOCKED_LAYOUT_H
#define ZT_OPS_CPU_BLOCKED_LAYOUT_H

#include "ops/kernel/layout.h"

/* The layout in which kernels that work on vectors of channels take a tensor: `given`, which its producer writes, where
 * whole vectors of channels lie side by side in it, else blocked. */
const struct zt_layout *zt_layout_vector(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                         const struct zt_shape *shape);

/* For nodes that copy ranges of channels between input tensors, the first `moved` inputs, and outputs. Ranges of whole
 * blocks lie in a blocked tensor where they lie in a plain one, so that the same copies serve both. Sets the layouts:
 * that of the first blocked input, if `first`, where a range begins, and the channels of every tensor are whole blocks,
 * or the node has copies that begin and end `within` blocks; else plain. */
void zt_layout_ranges(struct zt_prepare *p, int moved, int64_t first, bool within);
/* A node's layouts: all plain. */
void zt_layout_plain(struct zt_prepare *p);

/* The place of each channel: group g (of `vector` channels) of sample n at pixel p begins at element n * sample + g *
 * group + p * pixel, and its channels lie side by side. Plain tensors have groups of one channel. Channels last: groups
 * of 16, the last may be short. */
struct zt_planes {
    int64_t samples, channels, pixels; /* pixels: of a plane */
    int vector;                        /* channels of a group */
    int64_t groups, sample, group, pixel;
};
/* Reads the layout (NULL: plain) of a tensor of this shape. */
void zt_planes_of(const struct zt_layout *layout, const struct zt_shape *shape, struct zt_planes *to);
/* The element of a channel at the first pixel of a sample. */
static inline int64_t zt_planes_channel(const struct zt_planes *p, int64_t channel) {
    return channel / p->vector * p->group + channel % p->vector;
}

/* Arguments of weight gradients from planes of whole vectors of channels, float or bfloat16 as the kernel takes them:
 * dw and db, plain (NULL: not wanted). */
struct zt_planes_weights {
    const void *x, *dy;
    float *dw, *db;
    struct zt_planes x_planes, dy_planes;
    bool accumulate; /* dw is added to; db is always written anew */
};

#endif
