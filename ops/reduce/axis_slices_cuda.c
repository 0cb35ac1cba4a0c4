/* ArgMax, ArgMin, CumSum, CumProd and TopK on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/reduce/launch_axis_slices.h"

ZT_PREPARE_CUDA(extreme, zt_launch_extreme)
static bool extreme_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call, zt_launch_extreme(zt_stream_of(call), call->state, zt_in_cuda(call, 0), call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(extreme)

ZT_PREPARE_CUDA(cumulate, zt_launch_cumulate)
static bool cumulate_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call, zt_launch_cumulate(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_out_cuda(call, 0)), err);
}
ZT_KERNEL_CUDA(cumulate)

ZT_PREPARE_CUDA(top_k, zt_launch_top_k)
static bool top_k_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_top_k(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_out_cuda(call, 0).data,
                                       zt_out_cuda(call, 1).data),
                       err);
}
ZT_KERNEL_CUDA(top_k)
