/* Results of a convolution along one of two axes, for our own kernels. Forwards and to w all results of an axis read
 * the same taps:
 *
 *     to y, w   result o reads x at o stride - pad + k dilation, tap k
 *     to x      result i meets y at (i + pad - k dilation) / stride where that divides: results that are equal modulo
 *               the stride read the same taps of y one after the other. There are `stride` such phases. */
#ifndef ZT_OPS_CONV_AXIS_CPU_H
#define ZT_OPS_CONV_AXIS_CPU_H

#include "ops/conv/conv.h"

enum { ZT_CONV_AXES = 2, ZT_CONV_AXIS_TAPS = 64, ZT_CONV_AXIS_PHASES = 16 };

/* The sizes along an axis, 0 rows, 1 columns, -1 planes of three axes; an axis that a window lacks is of size 1. */
struct zt_conv_sizes {
    int64_t in, out, kernel, stride, dilation, pad;
};
struct zt_conv_sizes zt_conv_sizes_of(const struct zt_window *w, int axis);

/* Results first, first + step, ... of a phase; tap i of the first one covers element at[i], that of the next one
 * `advance` elements further. `tap`: its index in the kernel. */
struct zt_conv_axis {
    int64_t first, step, count, advance;
    int taps;
    int64_t at[ZT_CONV_AXIS_TAPS], tap[ZT_CONV_AXIS_TAPS];
};
/* Phases along an axis; 0: more than ZT_CONV_AXIS_PHASES, more taps than ZT_CONV_AXIS_TAPS, or negative padding. */
int zt_conv_axis_phases(const struct zt_conv_sizes *s, enum zt_conv_direction direction);
void zt_conv_axis_read(const struct zt_conv_sizes *s, enum zt_conv_direction direction, int phase,
                       struct zt_conv_axis *to);

#endif
