/* Kernels over lines and rows, gather and scatter, paddings on CUDA: what rows say of their nodes (describe of
 * graph/op.h) is what the launchers take. */
#include "ops/describe_cuda.h"
#include "ops/kernels_cuda.h"
#include "ops/launch_line.h"
#include "ops/launch_move.h"
#include "ops/random.h"

#include "device/cuda.h"

#include <stdlib.h>

#define PREPARE(id, type)                                                                                              \
    static bool id##_prepare(struct zt_prepare *q, struct zt_err *err) {                                               \
        return zt_describe_cuda(q, sizeof(struct type), err);                                                          \
    }
#define KERNEL(id)                                                                                                     \
    const struct zt_kernel zt_kernel_##id##_cuda = { .prepare = id##_prepare, .run = id##_run, .release = free };

/* ---- views as launchers take them ---- */

static struct zt_launch_tensor tensor(const struct zt_view *views, int count, int i) {
    return i < count && views[i].data ? (struct zt_launch_tensor){ views[i].dtype, views[i].data }
                                      : (struct zt_launch_tensor){ ZT_FLOAT, NULL };
}
static struct zt_launch_tensor in(const struct zt_call *call, int i) {
    return tensor(call->in, call->in_count, i);
}
static struct zt_launch_tensor out(const struct zt_call *call, int i) {
    return tensor(call->out, call->out_count, i);
}
static struct CUstream_st *stream(const struct zt_call *call) {
    return zt_cuda_stream(call->device);
}
static bool good(const struct zt_call *call, int code, struct zt_err *err) {
    return zt_cuda_good(call->device, code, err, call->node->name);
}
static size_t bytes_of(const struct zt_view *v) {
    return zt_dtype_bytes(v->dtype);
}
static size_t all_bytes_of(const struct zt_view *v) {
    return (size_t)zt_shape_count(&v->shape) * bytes_of(v);
}

/* ---- lines ---- */

PREPARE(line, zt_launch_line)
static bool line_run(const struct zt_call *call, struct zt_err *err) {
    return good(call, zt_launch_line(stream(call), call->state, in(call, 0), in(call, 1), out(call, 0)), err);
}
KERNEL(line)

PREPARE(extreme, zt_launch_extreme)
static bool extreme_run(const struct zt_call *call, struct zt_err *err) {
    return good(call, zt_launch_extreme(stream(call), call->state, in(call, 0), call->out[0].data), err);
}
KERNEL(extreme)

PREPARE(cumulate, zt_launch_cumulate)
static bool cumulate_run(const struct zt_call *call, struct zt_err *err) {
    return good(call, zt_launch_cumulate(stream(call), call->state, in(call, 0), out(call, 0)), err);
}
KERNEL(cumulate)

static bool count_correct_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_count), err))
        return false;
    const struct zt_launch_count *c = q->state;
    q->workspace_bytes = (size_t)(2 * c->outer * c->inner) * sizeof(int32_t);
    return true;
}
static bool count_correct_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_count_correct(stream(call), call->state, in(call, 0), in(call, 1), in(call, 2),
                                        call->workspace, call->out[0].data, out(call, 1).data),
                err);
}
KERNEL(count_correct)

/* ---- normalisations ---- */

PREPARE(norm, zt_launch_norm)
static bool norm_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_norm(stream(call), call->state, in(call, 0), in(call, 1), in(call, 2), out(call, 0),
                               out(call, 1), out(call, 2)),
                err);
}
KERNEL(norm)

PREPARE(norm_stats, zt_launch_norm)
static bool norm_stats_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_tensor none = { ZT_FLOAT, NULL };
    return good(call,
                zt_launch_norm(stream(call), call->state, in(call, 0), none, none, none, out(call, 0), out(call, 1)),
                err);
}
KERNEL(norm_stats)

PREPARE(norm_grad, zt_launch_norm)
static bool norm_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_norm_grad g = { .dy = in(call, 0),
                                           .x = in(call, 1),
                                           .scale = in(call, 2),
                                           .mean = in(call, 3),
                                           .inv_std = in(call, 4),
                                           .dmean = in(call, 5),
                                           .dinv_std = in(call, 6),
                                           .dx = out(call, 0),
                                           .dscale = out(call, 1),
                                           .dbias = out(call, 2) };
    return good(call, zt_launch_norm_grad(stream(call), call->state, &g), err);
}
KERNEL(norm_grad)

PREPARE(batch_norm, zt_launch_batch_norm)
static bool batch_norm_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_batch_norm_tensors t = { .x = in(call, 0),
                                                    .scale = in(call, 1),
                                                    .b = in(call, 2),
                                                    .mean = in(call, 3),
                                                    .var = in(call, 4),
                                                    .y = out(call, 0),
                                                    .new_mean = out(call, 1),
                                                    .new_var = out(call, 2),
                                                    .batch_mean = out(call, 3),
                                                    .inv_std = out(call, 4) };
    return good(call, zt_launch_batch_norm(stream(call), call->state, &t), err);
}
KERNEL(batch_norm)

PREPARE(batch_norm_grad, zt_launch_batch_norm)
static bool batch_norm_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_batch_norm_grad g = { .dy = in(call, 0),
                                                 .x = in(call, 1),
                                                 .scale = in(call, 2),
                                                 .mean = in(call, 3),
                                                 .inv_std = in(call, 4),
                                                 .dmean = in(call, 5),
                                                 .dvar = in(call, 6),
                                                 .dx = out(call, 0),
                                                 .dscale = out(call, 1),
                                                 .db = out(call, 2) };
    return good(call, zt_launch_batch_norm_grad(stream(call), call->state, &g), err);
}
KERNEL(batch_norm_grad)

/* ---- Dropout: the draws of this call ---- */

PREPARE(dropout, zt_launch_dropout)
static bool dropout_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_dropout d = *(const struct zt_launch_dropout *)call->state;
    const struct zt_draws draws = zt_draws_of(call, zt_attr_text(call->node, "key", call->node->name));
    d.key = draws.key;
    d.first_sample = draws.first_sample;
    return good(call, zt_launch_dropout(stream(call), &d, in(call, 0), out(call, 0), out(call, 1).data), err);
}
KERNEL(dropout)

/* ---- paddings and triangles ---- */

PREPARE(pad, zt_launch_pad)
static bool pad_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_pad p = *(const struct zt_launch_pad *)call->state;
    p.fill_at = in(call, 2).data;
    return good(call, zt_launch_pad(stream(call), bytes_of(&call->in[0]), &p, call->in[0].data, call->out[0].data),
                err);
}
KERNEL(pad)

PREPARE(pad_grad, zt_launch_pad)
static bool pad_grad_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_pad_grad(stream(call), call->in[0].dtype, call->state, call->in[0].data, call->out[0].data),
                err);
}
KERNEL(pad_grad)

PREPARE(triangle, zt_launch_triangle)
static bool triangle_run(const struct zt_call *call, struct zt_err *err) {
    return good(
        call,
        zt_launch_triangle(stream(call), bytes_of(&call->in[0]), call->state, call->in[0].data, call->out[0].data),
        err);
}
KERNEL(triangle)

PREPARE(one_hot, zt_launch_one_hot)
static bool one_hot_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_one_hot(stream(call), bytes_of(&call->out[0]), call->state, call->in[0].data,
                                  call->in[2].data, call->out[0].data),
                err);
}
KERNEL(one_hot)

/* ---- gather and scatter ---- */

PREPARE(gather, zt_launch_gather)
static bool gather_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_gather(stream(call), bytes_of(&call->in[0]), call->state, call->in[0].data, call->in[1].data,
                                 call->out[0].data),
                err);
}
KERNEL(gather)

static bool clear(const struct zt_call *call, struct zt_err *err) {
    return call->device->api->zero(call->device, call->out[0].data, all_bytes_of(&call->out[0]), err);
}

PREPARE(gather_grad, zt_launch_gather)
static bool gather_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) && good(call,
                                    zt_launch_gather_grad(stream(call), call->in[0].dtype, call->state,
                                                          call->in[0].data, call->in[1].data, call->out[0].data),
                                    err);
}
KERNEL(gather_grad)

PREPARE(gather_elements, zt_launch_elements)
static bool gather_elements_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_gather_elements(stream(call), bytes_of(&call->in[0]), call->state, call->in[0].data,
                                          call->in[1].data, call->out[0].data),
                err);
}
KERNEL(gather_elements)

PREPARE(gather_elements_grad, zt_launch_elements)
static bool gather_elements_grad_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_put_elements(stream(call), call->in[0].dtype, call->state, NULL, call->in[0].data,
                                       call->in[1].data, call->out[0].data),
                err);
}
KERNEL(gather_elements_grad)

PREPARE(scatter_elements, zt_launch_elements)
static bool scatter_elements_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_put_elements(stream(call), call->in[0].dtype, call->state, call->in[0].data, call->in[2].data,
                                       call->in[1].data, call->out[0].data),
                err);
}
KERNEL(scatter_elements)

PREPARE(gather_tuples, zt_launch_tuples)
static bool gather_tuples_run(const struct zt_call *call, struct zt_err *err) {
    return good(call,
                zt_launch_gather_tuples(stream(call), bytes_of(&call->in[0]), call->state, call->in[0].data,
                                        call->in[1].data, call->out[0].data),
                err);
}
KERNEL(gather_tuples)

PREPARE(gather_tuples_grad, zt_launch_tuples)
static bool gather_tuples_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) && good(call,
                                    zt_launch_put_tuples(stream(call), call->in[0].dtype, call->state, call->in[0].data,
                                                         call->in[1].data, call->out[0].data),
                                    err);
}
KERNEL(gather_tuples_grad)

PREPARE(scatter_tuples, zt_launch_tuples)
static bool scatter_tuples_run(const struct zt_call *call, struct zt_err *err) {
    return call->device->api->copy(call->device, call->out[0].data, call->in[0].data, all_bytes_of(&call->out[0]),
                                   err) &&
           good(call,
                zt_launch_put_tuples(stream(call), call->in[0].dtype, call->state, call->in[2].data, call->in[1].data,
                                     call->out[0].data),
                err);
}
KERNEL(scatter_tuples)
