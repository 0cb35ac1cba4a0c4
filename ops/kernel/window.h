/* Sliding windows, shared by Conv, ConvTranspose and the pools.
 *
 * A window relates a plane of `in` (a pool's input) to a plane of `out` (its result): window position k of result o
 * covers element  s = o * stride - pad + k * dilation  of every axis, or padding where s is outside 0..in-1.
 * Gradients and ConvTranspose use the inverse: element i belongs to result  t = (i + pad - k * dilation) / stride where
 * that divides and is inside 0..out-1. Axes here are the spatial ones, after N and C; planes are row-major. */
#ifndef ZT_OPS_KERNEL_WINDOW_H
#define ZT_OPS_KERNEL_WINDOW_H

#include "graph/ir/op.h"

enum { ZT_WINDOW_AXES = ZT_MAX_RANK - 2 };

struct zt_window {
    int axes;
    int64_t in[ZT_WINDOW_AXES], out[ZT_WINDOW_AXES];
    int64_t kernel[ZT_WINDOW_AXES], stride[ZT_WINDOW_AXES], dilation[ZT_WINDOW_AXES];
    int64_t pad[ZT_WINDOW_AXES], pad_end[ZT_WINDOW_AXES];
    int64_t in_elems, out_elems, kernel_elems; /* of a plane, of a window */
};

/* The spatial dims of a node's input, and those of the kernel where a weight has them (the attribute kernel_shape must
 * agree); kernel NULL: the attribute is required. */
struct zt_window_plane {
    int axes;
    const int64_t *dims, *kernel;
};

/* Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode of a node and computes `out` for an input plane.
 * The last result of ceil_mode begins inside the input or its left padding. */
bool zt_window_read(const struct zt_graph *g, int node, const struct zt_window_plane *in, struct zt_window *to,
                    struct zt_err *err);
/* Same for ConvTranspose, whose input is the window's `out`: computes `in` from strides, pads, output_padding and
 * output_shape. */
bool zt_window_read_transposed(const struct zt_graph *g, int node, const struct zt_window_plane *out,
                               struct zt_window *to, struct zt_err *err);
/* One window over the whole plane (the global pools). */
void zt_window_global(const int64_t *in, int axes, struct zt_window *to);

/* N, C and the plane of a node's input of rank 3 and more (axes 0: rank 2); fails naming it. */
bool zt_window_planes(const struct zt_graph *g, int node, const struct zt_value *x, struct zt_err *err);

/* The elements of a row of the last axis that have a partner in the other plane at window position k (an index per
 * axis): `count` places of the row, first, first + step, ...; their partners are the elements partner, partner +
 * stride, ... */
struct zt_stretch {
    int64_t first, step, count, partner, stride;
};
/* For results [from, from + length) of the row whose outer indices are `outer`; partners lie in the input plane. */
void zt_window_stretch(const struct zt_window *w, const int64_t *outer, const int64_t *k, int64_t from, int64_t length,
                       struct zt_stretch *to);
/* For input elements [from, from + length) of a row of the input plane; partners lie in the result plane. */
void zt_window_stretch_back(const struct zt_window *w, const int64_t *outer, const int64_t *k, int64_t from,
                            int64_t length, struct zt_stretch *to);

/* Splits a row-major index into indices per axis, and back. */
static inline void zt_window_split(int64_t flat, const int64_t *dim, int axes, int64_t *index) {
    for (int a = axes - 1; a >= 0; a--) {
        index[a] = flat % dim[a];
        flat /= dim[a];
    }
}

#endif
