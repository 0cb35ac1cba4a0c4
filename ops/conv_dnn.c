#include "ops/conv_dnn.h"

#include "ops/tile.h"
#include "ops/window_cuda.h"

/* ---- tensors ---- */

/* [first, second, plane], row-major, or with the second axis innermost. */
static struct zt_dnn_tensor tensor(const struct zt_conv_dnn_form *form, int64_t first, int64_t second,
                                   const int64_t *plane, int axes) {
    const int all = axes == 1 ? 2 : axes;
    struct zt_dnn_tensor t = { .dtype = form->dtype, .rank = all + 2, .dim = { first, second, 1 } };
    int64_t step = form->last ? second : 1;
    for (int a = 0; a < axes; a++)
        t.dim[2 + all - axes + a] = plane[a];
    for (int k = t.rank - 1; k >= 0; k--) {
        t.stride[k] = form->last && k == 1 ? 1 : step;
        step *= form->last && k == 1 ? 1 : t.dim[k];
    }
    return t;
}

/* ---- the window ---- */

/* Any padding behind that gives as many results is the same convolution. The one before it is taken where it does,
 * since few engines know two, else what the last window covers. */
static int64_t pad_behind(const struct zt_window *w, int a) {
    int64_t span = (w->kernel[a] - 1) * w->dilation[a] + 1, room = w->in[a] + 2 * w->pad[a] - span;
    if (room >= 0 && room / w->stride[a] + 1 == w->out[a])
        return w->pad[a];
    return zt_max_int(0, (w->out[a] - 1) * w->stride[a] + span - w->in[a] - w->pad[a]);
}

static struct zt_dnn_conv window(const struct zt_window *w) {
    const int lead = w->axes == 1;
    struct zt_dnn_conv c = { .axes = w->axes + lead, .stride = { 1 }, .dilation = { 1 } };
    for (int a = 0; a < w->axes; a++) {
        c.stride[lead + a] = w->stride[a];
        c.dilation[lead + a] = w->dilation[a];
        c.pad[lead + a] = w->pad[a];
        c.pad_end[lead + a] = pad_behind(w, a);
    }
    return c;
}

/* ---- the graph ---- */

/* y becomes what the operation makes of it and `b`, ZT_DNN_Y for one of one tensor. */
static void append(struct zt_dnn_graph *g, enum zt_dnn_kind kind, int b) {
    const int before = g->tensor_count++;
    struct zt_dnn_operation *last = &g->operation[g->operation_count - 1];
    g->tensor[before] = g->tensor[ZT_DNN_Y];
    g->tensor[before].dtype = ZT_FLOAT;
    g->tensor[before].inner = true;
    for (int i = 0; i < 4; i++)
        last->tensor[i] = last->tensor[i] == ZT_DNN_Y ? before : last->tensor[i];
    g->operation[g->operation_count++] = (struct zt_dnn_operation){ kind, { before, b, ZT_DNN_Y } };
}

void zt_conv_dnn(const struct zt_conv *conv, enum zt_conv_way way, const struct zt_conv_dnn_form *form,
                 struct zt_dnn_graph *to) {
    static const enum zt_dnn_kind kinds[] = {
        [ZT_CONV_TO_Y] = ZT_DNN_CONV, [ZT_CONV_TO_X] = ZT_DNN_CONV_DATA, [ZT_CONV_TO_W] = ZT_DNN_CONV_WEIGHT
    };
    const struct zt_window *w = &conv->window;
    const int64_t point[] = { 1, 1, 1 };
    *to = (struct zt_dnn_graph){ .tensor_count = ZT_DNN_BIAS + 1, .operation_count = 1, .conv = window(w) };
    to->tensor[ZT_DNN_X] = tensor(form, conv->n, conv->c, w->in, w->axes);
    to->tensor[ZT_DNN_W] = tensor(form, conv->m, conv->c / conv->groups, w->kernel, w->axes);
    to->tensor[ZT_DNN_Y] = tensor(form, conv->n, conv->m, w->out, w->axes);
    to->operation[0] = (struct zt_dnn_operation){ kinds[way], { ZT_DNN_X, ZT_DNN_W, ZT_DNN_Y } };
    to->tensor[ZT_DNN_BIAS] = tensor(form, 1, conv->m, point, w->axes);
    if (form->bias)
        append(to, ZT_DNN_ADD, ZT_DNN_BIAS);
    if (form->relu)
        append(to, ZT_DNN_RELU, ZT_DNN_Y);
}

/* ---- our own kernels ---- */

static struct zt_launch_steps steps(int64_t second, int64_t places, bool last) {
    return (struct zt_launch_steps){ second * places, last ? 1 : places, last ? second : 1 };
}

struct zt_launch_conv zt_conv_launch(const struct zt_conv *conv, enum zt_dtype dtype, bool last) {
    return (struct zt_launch_conv){ .dtype = dtype,
                                    .n = conv->n,
                                    .c = conv->c,
                                    .m = conv->m,
                                    .groups = conv->groups,
                                    .window = zt_window_cuda(&conv->window),
                                    .x = steps(conv->c, conv->window.in_elems, last),
                                    .w = steps(conv->c / conv->groups, conv->window.kernel_elems, last),
                                    .y = steps(conv->m, conv->window.out_elems, last) };
}
