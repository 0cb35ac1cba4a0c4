/* LinearAttention and its gradient on CUDA. */
#include "ops/linear_attention/linear.h"
#include "ops/linear_attention/gradient_outputs_cuda.h"

ZT_PREPARE_CUDA(linear_attention, zt_launch_linear)
static bool linear_attention_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_linear_tensors t = { .q = zt_in_cuda(call, ZT_LINEAR_Q),
                                                .k = zt_in_cuda(call, ZT_LINEAR_K),
                                                .v = zt_in_cuda(call, ZT_LINEAR_V),
                                                .past = zt_in_cuda(call, ZT_LINEAR_PAST),
                                                .decay = zt_in_cuda(call, ZT_LINEAR_DECAY),
                                                .beta = zt_in_cuda(call, ZT_LINEAR_BETA),
                                                .y = zt_out_cuda(call, 0),
                                                .present = zt_out_cuda(call, 1) };
    return zt_launched(call, zt_launch_linear_attention(zt_stream_of(call), call->state, &t), err);
}
ZT_KERNEL_CUDA(linear_attention)

static bool linear_attention_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_linear), err))
        return false;
    q->workspace_bytes = (size_t)zt_launch_linear_attention_floats(q->state) * sizeof(float);
    return true;
}

static bool linear_attention_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_linear_grad g = { .q = zt_in_cuda(call, ZT_LINEAR_Q),
                                             .k = zt_in_cuda(call, ZT_LINEAR_K),
                                             .v = zt_in_cuda(call, ZT_LINEAR_V),
                                             .past = zt_in_cuda(call, ZT_LINEAR_PAST),
                                             .decay = zt_in_cuda(call, ZT_LINEAR_DECAY),
                                             .beta = zt_in_cuda(call, ZT_LINEAR_BETA),
                                             .dy = zt_in_cuda(call, ZT_LINEAR_DY),
                                             .dpresent = zt_in_cuda(call, ZT_LINEAR_DPRESENT),
                                             .dq = zt_given_cuda(call, ZT_LINEAR_Q),
                                             .dk = zt_given_cuda(call, ZT_LINEAR_K),
                                             .dv = zt_given_cuda(call, ZT_LINEAR_V),
                                             .dpast = zt_given_cuda(call, ZT_LINEAR_PAST),
                                             .ddecay = zt_given_cuda(call, ZT_LINEAR_DECAY),
                                             .dbeta = zt_given_cuda(call, ZT_LINEAR_BETA),
                                             .workspace = call->workspace };
    return zt_launched(call, zt_launch_linear_attention_grad(zt_stream_of(call), call->state, &g), err);
}
ZT_KERNEL_CUDA(linear_attention_grad)
