/* QuantizeLinear, DequantizeLinear, ztrain.FakeQuantize and its gradient on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/quantize/launch_quantize.h"

ZT_PREPARE_CUDA(quantize, zt_launch_quantize)
static bool quantize_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_quantize(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1),
                                          zt_in_cuda(call, 2), zt_out_cuda(call, 0)),
                       err);
}
ZT_KERNEL_CUDA(quantize)

static bool fake_quantize_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_quantize), err))
        return false;
    q->workspace_bytes = (size_t)zt_launch_quantize_sums(q->state) * sizeof(float);
    return true;
}
static bool fake_quantize_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_quantize_grad t = { .dy = zt_in_cuda(call, 0),
                                               .x = zt_in_cuda(call, 1),
                                               .scale = zt_in_cuda(call, 2),
                                               .zero = zt_in_cuda(call, 3),
                                               .dx = zt_out_cuda(call, 0),
                                               .ds = zt_out_cuda(call, 1),
                                               .sums = call->workspace };
    return zt_launched(call, zt_launch_quantize_grad(zt_stream_of(call), call->state, &t), err);
}
ZT_KERNEL_CUDA(fake_quantize_grad)
