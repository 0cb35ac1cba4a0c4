/* RotaryEmbedding and the gradient of its caches on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/attention/rotary.h"

ZT_PREPARE_CUDA(rotary, zt_launch_rotary)
static bool rotary_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_rotary(zt_stream_of(call), call->state, zt_in_cuda(call, ZT_ROTARY_X),
                                        zt_in_cuda(call, ZT_ROTARY_COS), zt_in_cuda(call, ZT_ROTARY_SIN),
                                        zt_in_cuda(call, ZT_ROTARY_POSITION).data, zt_out_cuda(call, 0)),
                       err);
}
ZT_KERNEL_CUDA(rotary)

ZT_PREPARE_CUDA(rotary_cache_grad, zt_launch_rotary)
static bool rotary_cache_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_rotary_cache_grad(zt_stream_of(call), call->state, zt_in_cuda(call, ZT_ROTARY_X),
                                                   zt_in_cuda(call, ZT_ROTARY_DY),
                                                   zt_in_cuda(call, ZT_ROTARY_POSITION).data, zt_out_cuda(call, 0),
                                                   zt_out_cuda(call, 1)),
                       err);
}
ZT_KERNEL_CUDA(rotary_cache_grad)
