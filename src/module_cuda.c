/* ztrain-cuda.so: the table it exports, from the rooms it is made of. Nothing of this is in the program itself. */
#include "device/cuda.h"
#include "ops/kernels_cuda.h"
#include "optim/row.h"
#include "optim/step_cuda.h"

/* ---- optimizers; an error is named after the row ---- */

static bool adam_step(struct zt_device *device, struct zt_adam c, float *p, const float *g, float *const state[],
                      int64_t count, struct zt_err *err) {
    int code = zt_launch_adam(zt_cuda_stream(device), &c, p, g, state[0], state[1], count);
    return zt_cuda_good(device, code, err, "Adam");
}

static bool adam(struct zt_device *device, const struct zt_update *u, float *p, const float *g, float *const state[],
                 int64_t count, struct zt_err *err) {
    return adam_step(device, zt_adam_prepare(u, u->config->adam_w_mode), p, g, state, count, err);
}

static bool adamw(struct zt_device *device, const struct zt_update *u, float *p, const float *g, float *const state[],
                  int64_t count, struct zt_err *err) {
    return adam_step(device, zt_adam_prepare(u, true), p, g, state, count, err);
}

static bool sgd(struct zt_device *device, const struct zt_update *u, float *p, const float *g, float *const state[],
                int64_t count, struct zt_err *err) {
    struct zt_sgd c = zt_sgd_prepare(u);
    struct CUstream_st *stream = zt_cuda_stream(device);
    int code = zt_optimizer_sgd.states_used(u->config) ? zt_launch_sgd_momentum(stream, &c, p, g, state[0], count)
                                                       : zt_launch_sgd(stream, &c, p, g, count);
    return zt_cuda_good(device, code, err, "SGD");
}

static const struct zt_module_optimizer optimizers[] = {
    { "Adam", adam },
    { "AdamW", adamw },
    { "SGD", sgd },
    { 0 },
};

/* ---- sums ---- */

static bool add(struct zt_device *device, float *to, const float *from, int64_t count, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_accumulate(zt_cuda_stream(device), to, from, count), err, "adding gradients");
}

static bool sum_squares(struct zt_device *device, const float *x, int64_t count, double *sum, struct zt_err *err) {
    _Static_assert((ZT_SQUARE_PARTS + 1) * sizeof(double) <= ZT_CUDA_SCRATCH, "partial sums fit the scratch memory");
    double *parts = zt_cuda_scratch(device), *result = zt_cuda_pinned(device);
    int code = zt_launch_squares(zt_cuda_stream(device), x, count, parts, parts + ZT_SQUARE_PARTS);
    if (!zt_cuda_good(device, code, err, "the gradient norm") ||
        !device->api->to_host(device, result, parts + ZT_SQUARE_PARTS, sizeof *result, err) ||
        !device->api->synchronize(device, err))
        return false;
    *sum = *result;
    return true;
}

__attribute__((visibility("default"))) extern const struct zt_module zt_cuda_module;

const struct zt_module zt_cuda_module = {
    .abi = ZT_MODULE_ABI,
    .version = ZT_VERSION,
    .kernels = zt_kernels_cuda,
    .optimizers = optimizers,
    .create = zt_cuda_create,
    .add = add,
    .sum_squares = sum_squares,
};
