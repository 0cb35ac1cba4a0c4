#include "ops/cuda/window_dnn.h"

#include "ops/kernel/tile.h"

struct zt_dnn_tensor zt_planes_dnn(enum zt_dtype dtype, bool last, int64_t first, int64_t second, const int64_t *plane,
                                   int axes) {
    const int all = axes == 1 ? 2 : axes;
    struct zt_dnn_tensor t = { .dtype = dtype, .rank = all + 2, .dim = { first, second, 1 } };
    int64_t step = last ? second : 1;
    for (int a = 0; a < axes; a++)
        t.dim[2 + all - axes + a] = plane[a];
    for (int k = t.rank - 1; k >= 0; k--) {
        t.stride[k] = last && k == 1 ? 1 : step;
        step *= last && k == 1 ? 1 : t.dim[k];
    }
    return t;
}

/* Every padding behind that gives as many results makes the same window. The padding in front is taken where it does,
 * since few engines allow two different ones; else the padding that the last window covers. */
static int64_t pad_behind(const struct zt_window *w, int a) {
    int64_t span = (w->kernel[a] - 1) * w->dilation[a] + 1, room = w->in[a] + 2 * w->pad[a] - span;
    if (room >= 0 && room / w->stride[a] + 1 == w->out[a])
        return w->pad[a];
    return zt_max_int(0, (w->out[a] - 1) * w->stride[a] + span - w->in[a] - w->pad[a]);
}

struct zt_dnn_window zt_window_dnn(const struct zt_window *w) {
    const int lead = w->axes == 1;
    struct zt_dnn_window d = { .axes = w->axes + lead, .kernel = { 1 }, .stride = { 1 }, .dilation = { 1 } };
    for (int a = 0; a < w->axes; a++) {
        d.kernel[lead + a] = w->kernel[a];
        d.stride[lead + a] = w->stride[a];
        d.dilation[lead + a] = w->dilation[a];
        d.pad[lead + a] = w->pad[a];
        d.pad_end[lead + a] = pad_behind(w, a);
    }
    return d;
}
