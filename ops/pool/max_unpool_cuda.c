/* MaxUnpool and its gradient on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/pool/launch_max_unpool.h"

static bool unpool_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_unpool), err))
        return false;
    const struct zt_launch_unpool *u = q->state;
    q->workspace_bytes = (size_t)u->whole_elems * sizeof(int32_t);
    return true;
}
static bool unpool_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_unpool *u = call->state;
    return call->device->api->zero(call->device, call->workspace, (size_t)u->whole_elems * sizeof(int32_t), err) &&
           zt_launched(call,
                       zt_launch_unpool(zt_stream_of(call), u, zt_in_cuda(call, 0), call->in[1].data, call->out[0].data,
                                        call->workspace),
                       err);
}
ZT_KERNEL_CUDA(unpool)

ZT_PREPARE_CUDA(unpool_grad, zt_launch_unpool)
static bool unpool_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_unpool_grad(zt_stream_of(call), call->state, zt_in_cuda(call, 0), call->in[1].data,
                                             call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(unpool_grad)
