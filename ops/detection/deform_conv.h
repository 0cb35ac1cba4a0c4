/* DeformConv: the geometry of a node, read from its shapes and attributes, and the positions that it samples. The rows
 * of deform_conv.c and the kernels of all back ends use it.
 *
 * Shapes: x [n, c, in], w [m, c/groups, kernel], offset [n, offset_groups, kernel, axes, out], mask [n, offset_groups,
 * kernel, out], y [n, m, out]; the file joins the axes of offset and mask after n to [n, channels, out]. A window
 * position k of result o reads x, for all channels of an offset group, at the position
 *
 *     o stride - pad + k dilation + offset[n, group, k, :, o]
 *
 * which lies between 2^axes pixels, the corners of its cell. Corner i is the upper one along axis a where bit a of i is
 * set. Corners outside of x have the value 0. */
#ifndef ZT_OPS_DETECTION_DEFORM_CONV_H
#define ZT_OPS_DETECTION_DEFORM_CONV_H

#include "ops/conv/conv.h"

struct zt_deform_conv {
    struct zt_conv conv;
    int64_t offset_groups;
    bool masked;
};

/* DeformConv(x, w, offset[, b, mask]) -> y */
bool zt_deform_conv_read(const struct zt_graph *g, int node, struct zt_deform_conv *to, struct zt_err *err);
/* ztrain.DeformConvGradInput(x, w, offset, dy[, mask]) -> dx[, doffset[, dmask]] with DeformConv's attributes */
bool zt_deform_conv_grad_input_read(const struct zt_graph *g, int node, struct zt_deform_conv *to, struct zt_err *err);
/* ztrain.DeformConvGradWeight(x, dy, offset[, mask]) -> dw with DeformConv's attributes, kernel_shape always set */
bool zt_deform_conv_grad_weight_read(const struct zt_graph *g, int node, struct zt_deform_conv *to, struct zt_err *err);

/* The tensors of any of the three nodes: input indices, -1 where the node has none. */
struct zt_deform_inputs {
    bool (*read)(const struct zt_graph *g, int node, struct zt_deform_conv *to, struct zt_err *err);
    int x, w, offset, mask, bias, dy;
};
const struct zt_deform_inputs *zt_deform_inputs(const struct zt_node *n);

/* A sampled position: the cell's lower corner and the distance from it in [0, 1) along each axis. Not a number along an
 * axis: the distance is NaN and the cell is the first one, so that the sample is NaN too. */
struct zt_deform_position {
    int64_t low[ZT_WINDOW_AXES];
    double part[ZT_WINDOW_AXES];
};
/* The position that a tap samples; at: sample, tap (offset group * kernel elements + window position), result in its
 * plane. */
void zt_deform_position(const struct zt_deform_conv *d, const struct zt_view *offset, const int64_t at[3],
                        struct zt_deform_position *to);
/* The pixel of corner i in its plane, -1 where it is outside. */
int64_t zt_deform_pixel(const struct zt_deform_conv *d, const struct zt_deform_position *p, int corner);
/* The weight of corner i; with an axis `moved` its derivative by the position along that axis (-1: none). */
static inline double zt_deform_weight(int axes, const struct zt_deform_position *p, int corner, int moved) {
    double weight = 1;
    for (int a = 0; a < axes; a++) {
        const bool upper = corner >> a & 1;
        weight *= a == moved ? (upper ? 1 : -1) : upper ? p->part[a] : 1 - p->part[a];
    }
    return weight;
}

/* The reference kernels (deform_conv_ref.c). */
struct zt_prepare;
bool zt_deform_conv_ref_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_deform_conv_ref(const struct zt_call *call, struct zt_err *err);
bool zt_deform_conv_grad_input_ref(const struct zt_call *call, struct zt_err *err);
bool zt_deform_conv_grad_weight_ref(const struct zt_call *call, struct zt_err *err);

#endif
