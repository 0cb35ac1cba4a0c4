#include "ops/pool/pool_dnn.h"

#include "ops/cuda/window_dnn.h"

/* Whether every window covers an element of x, and none reaches more than `behind` elements behind x. */
static bool is_covered(const struct zt_window *w, int a, int64_t behind) {
    const int64_t last = (w->out[a] - 1) * w->stride[a] - w->pad[a];
    return w->in[a] > 0 && w->out[a] > 0 && w->dilation[a] == 1 && w->pad[a] < w->kernel[a] && last < w->in[a] &&
           last + w->kernel[a] <= w->in[a] + behind;
}

const char *zt_pool_dnn_refusal(const struct zt_pool *pool, const struct zt_pool_dnn *form) {
    const struct zt_window *w = &pool->window;
    const bool counts_pad = !form->largest && pool->count_include_pad;
    if (form->largest && form->grad)
        return "cuDNN does not say which of equal elements has the gradient";
    if (form->grad && !form->last)
        return "cuDNN's gradient of planes wants x and y";
    if (form->dtype != ZT_FLOAT && !zt_dtype_is_half(form->dtype))
        return "cuDNN pools float and half types only";
    if (form->n < 1 || form->c < 1 || w->axes > ZT_DNN_AXES)
        return "cuDNN pools tensors that are not empty over at most three axes";
    for (int a = 0; a < w->axes; a++)
        if (!is_covered(w, a, counts_pad ? w->pad_end[a] : w->kernel[a] - 1))
            return "the window has a dilation, or reaches too far out of x";
    return NULL;
}

void zt_pool_dnn(const struct zt_pool *pool, const struct zt_pool_dnn *form, struct zt_dnn_graph *to) {
    const struct zt_window *w = &pool->window;
    *to = (struct zt_dnn_graph){ .tensor_count = ZT_POOL_TENSORS,
                                 .operation_count = 1,
                                 .window = zt_window_dnn(w),
                                 .pool = form->largest             ? ZT_DNN_MAX_POOL
                                         : pool->count_include_pad ? ZT_DNN_AVERAGE_POOL
                                                                   : ZT_DNN_AVERAGE_POOL_INSIDE };
    to->tensor[ZT_POOL_X] = zt_planes_dnn(form->dtype, form->last, form->n, form->c, w->in, w->axes);
    to->tensor[ZT_POOL_Y] = zt_planes_dnn(form->dtype, form->last, form->n, form->c, w->out, w->axes);
    to->operation[0] =
        (struct zt_dnn_operation){ form->grad ? ZT_DNN_POOL_GRAD : ZT_DNN_POOL, { ZT_POOL_X, ZT_POOL_Y } };
}
