#include "ops/conv/conv_dnn.h"

#include "ops/cuda/window_cuda.h"
#include "ops/cuda/window_dnn.h"

/* ---- the graph ---- */

static void append_bias(struct zt_dnn_graph *g) {
    const int before = g->tensor_count++;
    g->tensor[before] = g->tensor[ZT_DNN_Y];
    g->tensor[before].dtype = ZT_FLOAT;
    g->tensor[before].inner = true;
    g->operation[0].tensor[2] = before;
    g->operation[g->operation_count++] = (struct zt_dnn_operation){ ZT_DNN_ADD, { before, ZT_DNN_BIAS, ZT_DNN_Y } };
}

const char *zt_conv_dnn_refusal(const struct zt_conv *conv, enum zt_conv_direction direction,
                                const struct zt_conv_dnn_form *form) {
    const struct zt_dnn_window w = zt_window_dnn(&conv->window);
    for (int a = 0; a < w.axes; a++)
        if (direction == ZT_CONV_TO_W && form->dtype == ZT_FLOAT && w.stride[a] > 1 && w.pad[a] != w.pad_end[a])
            return "cuDNN computes fp32 gradients of weights wrong under strides and different paddings";
    return NULL;
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
        append_bias(to);
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
