/* CausalConvWithState and its gradient on CUDA. */
#include "ops/linear_attention/causal_conv.h"
#include "ops/linear_attention/gradient_outputs_cuda.h"

ZT_PREPARE_CUDA(causal_conv, zt_launch_causal_conv)
static bool causal_conv_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_causal_conv_tensors t = { .x = zt_in_cuda(call, ZT_CAUSAL_X),
                                                     .weight = zt_in_cuda(call, ZT_CAUSAL_W),
                                                     .bias = zt_in_cuda(call, ZT_CAUSAL_BIAS),
                                                     .past = zt_in_cuda(call, ZT_CAUSAL_PAST),
                                                     .y = zt_out_cuda(call, 0),
                                                     .present = zt_out_cuda(call, 1) };
    return zt_launched(call, zt_launch_causal_conv(zt_stream_of(call), call->state, &t), err);
}
ZT_KERNEL_CUDA(causal_conv)

static bool causal_conv_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_causal_conv), err))
        return false;
    const struct zt_launch_causal_conv *c = q->state;
    q->workspace_bytes = (size_t)(c->batch * c->channels * c->length) * sizeof(float);
    return true;
}

static bool causal_conv_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_causal_conv_grad g = { .x = zt_in_cuda(call, ZT_CAUSAL_X),
                                                  .weight = zt_in_cuda(call, ZT_CAUSAL_W),
                                                  .bias = zt_in_cuda(call, ZT_CAUSAL_BIAS),
                                                  .past = zt_in_cuda(call, ZT_CAUSAL_PAST),
                                                  .dy = zt_in_cuda(call, ZT_CAUSAL_DY),
                                                  .dpresent = zt_in_cuda(call, ZT_CAUSAL_DPRESENT),
                                                  .dx = zt_given_cuda(call, ZT_CAUSAL_X),
                                                  .dweight = zt_given_cuda(call, ZT_CAUSAL_W),
                                                  .dbias = zt_given_cuda(call, ZT_CAUSAL_BIAS),
                                                  .dpast = zt_given_cuda(call, ZT_CAUSAL_PAST),
                                                  .da = call->workspace };
    return zt_launched(call, zt_launch_causal_conv_grad(zt_stream_of(call), call->state, &g), err);
}
ZT_KERNEL_CUDA(causal_conv_grad)
