/* BatchNormSync and its gradient on CUDA. The sums of up to MOST channels go to the host, over the ranks and back,
 * while the stream waits: such a node is never part of a recorded segment (ZT_OP_PEERS). */
#include "ops/describe_cuda.h"
#include "ops/kernels_cuda.h"

enum { MOST = (ZT_CUDA_SCRATCH / (int)sizeof(double) - 1) / 2 };

/* Adds up two sums a channel and the number of elements that count. */
static bool add_ranks(const struct zt_call *call, int64_t channels, struct zt_err *err) {
    const struct zt_device_api *api = call->device->api;
    const struct zt_launch_norm_sync *n = call->state;
    const int count = (int)(2 * channels + 1);
    const size_t bytes = (size_t)count * sizeof(double);
    double *there = zt_cuda_scratch(call->device), *here = zt_cuda_pinned(call->device);
    if (n->alone || !call->peers)
        return true;
    return api->to_host(call->device, here, there, bytes, err) && api->synchronize(call->device, err) &&
           call->peers->sum(call->peers->with, here, count, err) &&
           api->to_device(call->device, there, here, bytes, err);
}

static bool run(const struct zt_call *call, const struct zt_launch_norm_sync_tensors *t, struct zt_err *err) {
    const struct zt_launch_norm_sync *n = call->state;
    double *sums = zt_cuda_scratch(call->device);
    for (int64_t first = 0; first < n->channels; first += MOST) {
        const int64_t count = n->channels - first < MOST ? n->channels - first : MOST;
        if (!zt_launched(call, zt_launch_norm_sync_sums(zt_stream_of(call), n, t, first, count, sums), err) ||
            !add_ranks(call, count, err) ||
            !zt_launched(call, zt_launch_norm_sync_apply(zt_stream_of(call), n, t, first, count, sums), err))
            return false;
    }
    return true;
}

ZT_PREPARE_CUDA(batch_norm_sync, zt_launch_norm_sync)
static bool batch_norm_sync_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_norm_sync_tensors t = { .x = zt_in_cuda(call, 0),
                                                   .scale = zt_in_cuda(call, 1),
                                                   .b = zt_in_cuda(call, 2),
                                                   .mean = zt_in_cuda(call, 3),
                                                   .var = zt_in_cuda(call, 4),
                                                   .weights = zt_in_cuda(call, 5),
                                                   .y = zt_out_cuda(call, 0),
                                                   .new_mean = zt_out_cuda(call, 1),
                                                   .new_var = zt_out_cuda(call, 2),
                                                   .batch_mean = zt_out_cuda(call, 3),
                                                   .out_inv_std = zt_out_cuda(call, 4) };
    return run(call, &t, err);
}
ZT_KERNEL_CUDA(batch_norm_sync)

ZT_PREPARE_CUDA(batch_norm_sync_grad, zt_launch_norm_sync)
static bool batch_norm_sync_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_norm_sync_tensors t = { .dy = zt_in_cuda(call, 0),
                                                   .x = zt_in_cuda(call, 1),
                                                   .scale = zt_in_cuda(call, 2),
                                                   .mean = zt_in_cuda(call, 3),
                                                   .inv_std = zt_in_cuda(call, 4),
                                                   .weights = zt_in_cuda(call, 5),
                                                   .dx = zt_out_cuda(call, 0),
                                                   .dscale = zt_out_cuda(call, 1),
                                                   .db = zt_out_cuda(call, 2) };
    return run(call, &t, err);
}
ZT_KERNEL_CUDA(batch_norm_sync_grad)
