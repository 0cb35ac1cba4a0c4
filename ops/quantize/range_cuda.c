/* Ranges of quantization on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/quantize/launch_range.h"

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

/* Two numbers go through the host, where the ranks add theirs up. */
static bool range_mean_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_device_api *api = call->device->api;
    float *here = zt_cuda_pinned(call->device);
    for (int i = 0; i < 2; i++)
        if (!api->to_host(call->device, here + i, in_of(call, i), sizeof *here, err))
            return false;
    if (!api->synchronize(call->device, err))
        return false;
    double sums[3] = { (double)here[0], (double)here[1], 1 };
    if (call->group && !call->group->sum(call->group->with, sums, 3, err))
        return false;
    for (int i = 0; i < 2; i++) {
        here[i] = (float)(sums[i] / sums[2]);
        if (out_of(call, i) && !api->to_device(call->device, out_of(call, i), here + i, sizeof *here, err))
            return false;
    }
    return true;
}
const struct zt_kernel zt_kernel_range_mean_cuda = { .run = range_mean_run };
