/* Relu and its gradient, Add, Cast on CUDA: what the launchers want from a node. */
#include "ops/kernels_cuda.h"
#include "ops/launch_cuda.h"
#include "ops/walk_cuda.h"

#include "device/cuda.h"

static bool relu(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0];
    int code =
        zt_launch_relu(zt_cuda_stream(call->device), x->dtype, x->data, call->out[0].data, zt_shape_count(&x->shape));
    return zt_cuda_good(call->device, code, err, call->node->name);
}

static bool relu_grad(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *dy = &call->in[0];
    int code = zt_launch_relu_grad(zt_cuda_stream(call->device), dy->dtype, dy->data, call->in[1].data,
                                   call->out[0].data, zt_shape_count(&dy->shape));
    return zt_cuda_good(call->device, code, err, call->node->name);
}

static bool add(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    struct zt_launch_walk walk = zt_walk_cuda(&y->shape, &a->shape, &b->shape);
    int code = zt_launch_add(zt_cuda_stream(call->device), y->dtype, &walk, a->data, b->data, y->data);
    return zt_cuda_good(call->device, code, err, call->node->name);
}

static bool cast(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    int code =
        zt_launch_cast(zt_cuda_stream(call->device), x->dtype, x->data, y->dtype, y->data, zt_shape_count(&y->shape));
    return zt_cuda_good(call->device, code, err, call->node->name);
}

const struct zt_kernel zt_kernel_relu_cuda = { .run = relu };
const struct zt_kernel zt_kernel_relu_grad_cuda = { .run = relu_grad };
const struct zt_kernel zt_kernel_add_cuda = { .run = add };
const struct zt_kernel zt_kernel_cast_cuda = { .run = cast };
