/* RoiAlign and its gradient on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/detection/launch_roi_align.h"

ZT_PREPARE_CUDA(roi_align, zt_roi_align)
static bool roi_align_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_roi_align(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1),
                                           call->in[2].data, zt_out_cuda(call, 0)),
                       err);
}
ZT_KERNEL_CUDA(roi_align)

static bool roi_align_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_roi_align), err))
        return false;
    q->workspace_bytes = zt_launch_roi_align_grad_bytes(q->state);
    return true;
}
static bool roi_align_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_roi_grad g = { .dy = zt_in_cuda(call, 0),
                                          .rois = zt_in_cuda(call, 1),
                                          .x = zt_in_cuda(call, 3),
                                          .dx = zt_out_cuda(call, 0),
                                          .drois = zt_out_cuda(call, 1),
                                          .batch = call->in[2].data };
    return zt_launched(call, zt_launch_roi_align_grad(zt_stream_of(call), call->state, &g, call->workspace), err);
}
ZT_KERNEL_CUDA(roi_align_grad)
