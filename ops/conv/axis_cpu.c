#include "ops/conv/axis_cpu.h"

#include "ops/kernel/tile.h"

struct zt_conv_sizes zt_conv_sizes_of(const struct zt_window *w, int axis) {
    const int from = axis - (ZT_CONV_AXES - w->axes);
    if (from < 0)
        return (struct zt_conv_sizes){ .in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1 };
    return (struct zt_conv_sizes){ .in = w->in[from],
                                   .out = w->out[from],
                                   .kernel = w->kernel[from],
                                   .stride = w->stride[from],
                                   .dilation = w->dilation[from],
                                   .pad = w->pad[from] };
}

int zt_conv_axis_phases(const struct zt_conv_sizes *s, enum zt_conv_direction direction) {
    if (s->stride > ZT_CONV_AXIS_PHASES || s->kernel > ZT_CONV_AXIS_TAPS || s->pad < 0)
        return 0;
    return direction == ZT_CONV_TO_X ? (int)s->stride : 1;
}

void zt_conv_axis_read(const struct zt_conv_sizes *s, enum zt_conv_direction direction, int phase,
                       struct zt_conv_axis *to) {
    const bool to_x = direction == ZT_CONV_TO_X;
    to->first = phase;
    to->step = to_x ? s->stride : 1;
    to->count = to_x ? zt_ceil_div(s->in - phase, s->stride) : s->out;
    to->advance = to_x ? 1 : s->stride;
    to->taps = 0;
    for (int64_t k = 0; k < s->kernel; k++) {
        const int64_t reach = k * s->dilation, back = phase + s->pad - reach;
        if (to_x && back % s->stride != 0)
            continue;
        to->at[to->taps] = to_x ? back / s->stride : reach - s->pad;
        to->tap[to->taps++] = k;
    }
}
