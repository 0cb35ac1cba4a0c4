/* Ranges of quantization on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/quantize/launch_range.h"
#include "ops/quantize/range_over_ranks.h"

#include "device/cuda.h"

static float *in_of(const struct zt_call *call, int i) {
    return zt_in_cuda(call, i).data;
}
static float *out_of(const struct zt_call *call, int i) {
    return zt_out_cuda(call, i).data;
}

ZT_PREPARE_CUDA(moving_range, zt_launch_moving_range)
static bool moving_range_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_moving_range_tensors t = {
        in_of(call, 0), in_of(call, 1), in_of(call, 2), { out_of(call, 0), out_of(call, 1), out_of(call, 2) }
    };
    return zt_launched(call, zt_launch_moving_range(zt_stream_of(call), call->state, &t), err);
}
ZT_KERNEL_CUDA(moving_range)

ZT_PREPARE_CUDA(range_scale, zt_launch_range_scale)
static bool range_scale_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_range_scale(zt_stream_of(call), call->state, in_of(call, 0), in_of(call, 1),
                                             out_of(call, 0), out_of(call, 1)),
                       err);
}
ZT_KERNEL_CUDA(range_scale)

/* Two numbers go through the host, where the ranks compare theirs. */
static bool range_over_ranks_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_device_api *api = call->device->api;
    float *ends = zt_cuda_pinned(call->device);
    for (int i = 0; i < 2; i++)
        if (!api->to_host(call->device, ends + i, in_of(call, i), sizeof *ends, err))
            return false;
    if (!api->synchronize(call->device, err) || !zt_range_over_ranks(call->group, ends, err))
        return false;
    for (int i = 0; i < 2; i++)
        if (out_of(call, i) && !api->to_device(call->device, out_of(call, i), ends + i, sizeof *ends, err))
            return false;
    return true;
}
const struct zt_kernel zt_kernel_range_over_ranks_cuda = { .run = range_over_ranks_run };
