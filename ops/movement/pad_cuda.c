/* Pad, Trilu, ReverseSequence and OneHot on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/movement/launch_pad.h"

static size_t bytes_of(const struct zt_view *v) {
    return zt_dtype_bytes(v->dtype);
}

/* Tensors as they come: axes outermost first. */
static bool pad_prepare(struct zt_prepare *q, struct zt_err *err) {
    int axis[ZT_MAX_RANK];
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_pad), err))
        return false;
    struct zt_launch_pad *p = q->state;
    const struct zt_launch_pad plain = *p;
    if (!zt_layout_alike(q, 1, 1))
        return true;
    zt_layout_axes(q->in_layout[0] ? q->in_layout[0] : q->out_layout[0], p->axes, axis);
    for (int k = 0; k < p->axes; k++) {
        p->small[k] = plain.small[axis[k]];
        p->big[k] = plain.big[axis[k]];
        p->front[k] = plain.front[axis[k]];
    }
    return true;
}

static bool pad_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_pad p = *(const struct zt_launch_pad *)call->state;
    p.fill_at = zt_in_cuda(call, 2).data;
    return zt_launched(
        call, zt_launch_pad(zt_stream_of(call), bytes_of(&call->in[0]), &p, call->in[0].data, call->out[0].data), err);
}
const struct zt_kernel zt_kernel_pad_cuda = {
    .prepare = pad_prepare, .layouts = true, .run = pad_run, .release = free
};

static bool pad_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call,
        zt_launch_pad_grad(zt_stream_of(call), call->in[0].dtype, call->state, call->in[0].data, call->out[0].data),
        err);
}
const struct zt_kernel zt_kernel_pad_grad_cuda = {
    .prepare = pad_prepare, .layouts = true, .run = pad_grad_run, .release = free
};

ZT_PREPARE_CUDA(triangle, zt_launch_triangle)
static bool triangle_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_triangle(zt_stream_of(call), bytes_of(&call->in[0]), call->state, call->in[0].data,
                                          call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(triangle)

ZT_PREPARE_CUDA(reverse, zt_launch_reverse)
static bool reverse_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_reverse(zt_stream_of(call), bytes_of(&call->in[0]), call->state, call->in[0].data,
                                         call->in[1].data, call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(reverse)

ZT_PREPARE_CUDA(one_hot, zt_launch_one_hot)
static bool one_hot_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_one_hot(zt_stream_of(call), bytes_of(&call->out[0]), call->state, call->in[0].data,
                                         call->in[2].data, call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(one_hot)

ZT_PREPARE_CUDA(tensor_scatter, zt_launch_tensor_scatter)
static bool tensor_scatter_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_tensor_scatter_data d = { .cache = call->in[0].data,
                                                     .update = call->in[1].data,
                                                     .places = zt_in_cuda(call, 2).data,
                                                     .y = call->out[0].data };
    return zt_launched(call, zt_launch_tensor_scatter(zt_stream_of(call), bytes_of(&call->in[0]), call->state, &d),
                       err);
}
ZT_KERNEL_CUDA(tensor_scatter)
