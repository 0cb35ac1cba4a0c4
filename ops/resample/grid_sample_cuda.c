/* GridSample and AffineGrid with their gradients on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/resample/launch_grid_sample.h"

static bool grid_sample_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_sampler), err))
        return false;
    q->workspace_bytes = zt_launch_sample_bytes(q->state);
    return true;
}
static bool grid_sample_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_grid_sample(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1),
                                             zt_out_cuda(call, 0), call->workspace),
                       err);
}
ZT_KERNEL_CUDA(grid_sample)

static bool grid_sample_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    return grid_sample_prepare(q, err);
}
static bool grid_sample_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_sample_grad g = { .dy = zt_in_cuda(call, 0),
                                             .x = zt_in_cuda(call, 1),
                                             .grid = zt_in_cuda(call, 2),
                                             .dx = zt_out_cuda(call, 0),
                                             .dgrid = zt_out_cuda(call, 1) };
    return zt_launched(call, zt_launch_grid_sample_grad(zt_stream_of(call), call->state, &g, call->workspace), err);
}
ZT_KERNEL_CUDA(grid_sample_grad)

ZT_PREPARE_CUDA(affine_grid, zt_launch_affine_grid)
static bool affine_grid_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call, zt_launch_affine_grid(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_out_cuda(call, 0)), err);
}
ZT_KERNEL_CUDA(affine_grid)

ZT_PREPARE_CUDA(affine_grid_grad, zt_launch_affine_grid)
static bool affine_grid_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call, zt_launch_affine_grid_grad(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_out_cuda(call, 0)),
        err);
}
ZT_KERNEL_CUDA(affine_grid_grad)
