/* Layer, RMS, instance and group normalisation with their gradients on CUDA. */
#include "ops/describe_cuda.h"
#include "ops/kernels_cuda.h"
#include "ops/layout_cuda.h"

/* Input x is normalised. It is taken channels last too where scale has an entry a channel: in instance normalisation,
 * and group normalisation since opset 21. */
static bool prepare(struct zt_prepare *q, int x, unsigned ins, unsigned outs, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_norm), err))
        return false;
    struct zt_launch_norm *n = q->state;
    const struct zt_shape *shape = &zt_in(q->graph, q->node, x)->shape;
    const bool channels =
        shape->rank > 2 && shape->dim[1] == n->period * n->per_row && shape->dim[0] * n->period == n->rows;
    n->last = zt_layout_alike(q, channels ? ins : 0, channels ? outs : 0);
    return true;
}

static bool norm_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, 0, 1, 1, err);
}
static bool norm_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_norm(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1),
                                      zt_in_cuda(call, 2), zt_out_cuda(call, 0), zt_out_cuda(call, 1),
                                      zt_out_cuda(call, 2)),
                       err);
}
const struct zt_kernel zt_kernel_norm_cuda = {
    .prepare = norm_prepare, .layouts = true, .run = norm_run, .release = free
};

static bool norm_stats_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, 0, 1, 0, err);
}
static bool norm_stats_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_tensor none = { ZT_FLOAT, NULL };
    return zt_launched(call,
                       zt_launch_norm(zt_stream_of(call), call->state, zt_in_cuda(call, 0), none, none, none,
                                      zt_out_cuda(call, 0), zt_out_cuda(call, 1)),
                       err);
}
const struct zt_kernel zt_kernel_norm_stats_cuda = {
    .prepare = norm_stats_prepare, .layouts = true, .run = norm_stats_run, .release = free
};

static bool norm_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!prepare(q, 1, 3, 1, err))
        return false;
    q->workspace_bytes = zt_launch_norm_grad_bytes(q->state);
    return true;
}
static bool norm_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_norm_grad g = { .dy = zt_in_cuda(call, 0),
                                           .x = zt_in_cuda(call, 1),
                                           .scale = zt_in_cuda(call, 2),
                                           .mean = zt_in_cuda(call, 3),
                                           .inv_std = zt_in_cuda(call, 4),
                                           .dmean = zt_in_cuda(call, 5),
                                           .dinv_std = zt_in_cuda(call, 6),
                                           .dx = zt_out_cuda(call, 0),
                                           .dscale = zt_out_cuda(call, 1),
                                           .dbias = zt_out_cuda(call, 2) };
    return zt_launched(call, zt_launch_norm_grad(zt_stream_of(call), call->state, &g, call->workspace), err);
}
const struct zt_kernel zt_kernel_norm_grad_cuda = {
    .prepare = norm_grad_prepare, .layouts = true, .run = norm_grad_run, .release = free
};
