#include "ops/conv/conv_dnn.h"

#include "ops/cuda/window_cuda.h"
#include "ops/cuda/window_dnn.h"

/* ---- the graph ---- */

/* Appends an operation on y and `b`; `b` is ZT_DNN_Y for an operation on one tensor. */
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

void zt_conv_dnn(const struct zt_conv *conv, enum zt_conv_direction direction, const struct zt_conv_dnn_form *form,
                 struct zt_dnn_graph *to) {
    static const enum zt_dnn_kind kinds[] = {
        [ZT_CONV_TO_Y] = ZT_DNN_CONV, [ZT_CONV_TO_X] = ZT_DNN_CONV_DATA, [ZT_CONV_TO_W] = ZT_DNN_CONV_WEIGHT
    };
    const struct zt_window *w = &conv->window;
    const int64_t point[] = { 1, 1, 1 };
    *to = (struct zt_dnn_graph){ .tensor_count = ZT_DNN_BIAS + 1, .operation_count = 1, .window = zt_window_dnn(w) };
    to->tensor[ZT_DNN_X] = zt_planes_dnn(form->dtype, form->last, conv->n, conv->c, w->in, w->axes);
    to->tensor[ZT_DNN_W] = zt_planes_dnn(form->dtype, form->last, conv->m, conv->c / conv->groups, w->kernel, w->axes);
    to->tensor[ZT_DNN_Y] = zt_planes_dnn(form->dtype, form->last, conv->n, conv->m, w->out, w->axes);
    to->operation[0] = (struct zt_dnn_operation){ kinds[direction], { ZT_DNN_X, ZT_DNN_W, ZT_DNN_Y } };
    to->tensor[ZT_DNN_BIAS] = zt_planes_dnn(form->dtype, form->last, 1, conv->m, point, w->axes);
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
