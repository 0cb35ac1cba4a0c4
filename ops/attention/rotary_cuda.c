/* RotaryEmbedding and the gradient of its caches on CUDA. */
#include "ops/attention/rotary.h"
#include "ops/cuda/describe.h"

ZT_PREPARE_CUDA(rotary, zt_launch_rotary)
static bool rotary_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_rotary_tensors t = { .x = zt_in_cuda(call, ZT_ROTARY_X),
                                                .cos = zt_in_cuda(call, ZT_ROTARY_COS),
                                                .sin = zt_in_cuda(call, ZT_ROTARY_SIN),
                                                .y = zt_out_cuda(call, 0),
                                                .position = zt_in_cuda(call, ZT_ROTARY_POSITION).data };
    return zt_launched(call, zt_launch_rotary(zt_stream_of(call), call->state, &t), err);
}
ZT_KERNEL_CUDA(rotary)

ZT_PREPARE_CUDA(rotary_cache_grad, zt_launch_rotary)
static bool rotary_cache_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_rotary_cache_grad g = { .x = zt_in_cuda(call, ZT_ROTARY_X),
                                                   .dy = zt_in_cuda(call, ZT_ROTARY_DY),
                                                   .dcos = zt_out_cuda(call, 0),
                                                   .dsin = zt_out_cuda(call, 1),
                                                   .position = zt_in_cuda(call, ZT_ROTARY_POSITION).data };
    return zt_launched(call, zt_launch_rotary_cache_grad(zt_stream_of(call), call->state, &g), err);
}
ZT_KERNEL_CUDA(rotary_cache_grad)
