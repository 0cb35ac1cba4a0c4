/* Kernels over lines, gather and scatter, paddings on CUDA: what rows say of their nodes (describe of
 * graph/ir/op.h) is what the launchers take. */
#include "ops/cuda/describe.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch_copy.h"
#include "ops/cuda/layout_cuda.h"

#include <stdlib.h>

static size_t bytes_of(const struct zt_view *v) {
    return zt_dtype_bytes(v->dtype);
}

/* ---- lines ---- */

ZT_PREPARE_CUDA(rows, zt_launch_rows)
static bool rows_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call,
        zt_launch_rows(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1), zt_out_cuda(call, 0)),
        err);
}
ZT_KERNEL_CUDA(rows)

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

static bool count_correct_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_count), err))
        return false;
    const struct zt_launch_count *c = q->state;
    q->workspace_bytes = (size_t)(2 * c->outer * c->inner) * sizeof(int32_t);
    return true;
}
static bool count_correct_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_counts to = { call->workspace, zt_arrived_of(call), call->out[0].data,
                                         zt_out_cuda(call, 1).data };
    return zt_launched(call,
                       zt_launch_count_correct(zt_stream_of(call), call->state, zt_in_cuda(call, 0),
                                               zt_in_cuda(call, 1), zt_in_cuda(call, 2), &to),
                       err);
}
ZT_KERNEL_CUDA(count_correct)

/* ---- paddings and triangles ---- */

/* Tensors as they come: axes outermost first. */
static bool pad_prepare(struct zt_prepare *q, struct zt_err *err) {
    int axis[ZT_MAX_RANK];
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_pad), err))
        return false;
    struct zt_launch_pad *p = q->state;
    const struct zt_launch_pad plain = *p;
    if (!zt_layout_alike(q, 1, 1))
        return true;
    zt_layout_axes(q->in_layout[0] ? q->in_layout[0] : q->out_layout[0], p->axes, axis);
    for (int k = 0; k < p->axes; k++) {
        p->small[k] = plain.small[axis[k]];
        p->big[k] = plain.big[axis[k]];
        p->front[k] = plain.front[axis[k]];
    }
    return true;
}

static bool pad_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_pad p = *(const struct zt_launch_pad *)call->state;
    p.fill_at = zt_in_cuda(call, 2).data;
    return zt_launched(
        call, zt_launch_pad(zt_stream_of(call), bytes_of(&call->in[0]), &p, call->in[0].data, call->out[0].data), err);
}
const struct zt_kernel zt_kernel_pad_cuda = {
    .prepare = pad_prepare, .layouts = true, .run = pad_run, .release = free
};

static bool pad_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call,
        zt_launch_pad_grad(zt_stream_of(call), call->in[0].dtype, call->state, call->in[0].data, call->out[0].data),
        err);
}
const struct zt_kernel zt_kernel_pad_grad_cuda = {
    .prepare = pad_prepare, .layouts = true, .run = pad_grad_run, .release = free
};

ZT_PREPARE_CUDA(triangle, zt_launch_triangle)
static bool triangle_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_triangle(zt_stream_of(call), bytes_of(&call->in[0]), call->state, call->in[0].data,
                                          call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(triangle)

ZT_PREPARE_CUDA(reverse, zt_launch_reverse)
static bool reverse_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_reverse(zt_stream_of(call), bytes_of(&call->in[0]), call->state, call->in[0].data,
                                         call->in[1].data, call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(reverse)

ZT_PREPARE_CUDA(one_hot, zt_launch_one_hot)
static bool one_hot_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_one_hot(zt_stream_of(call), bytes_of(&call->out[0]), call->state, call->in[0].data,
                                         call->in[2].data, call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(one_hot)

/* ---- gather and scatter ---- */

ZT_PREPARE_CUDA(gather, zt_launch_gather)
static bool gather_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_gather(zt_stream_of(call), bytes_of(&call->in[0]), call->state, call->in[0].data,
                                        call->in[1].data, call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(gather)

static bool clear(const struct zt_call *call, struct zt_err *err) {
    return call->device->api->zero(call->device, call->out[0].data, zt_all_bytes_of(&call->out[0]), err);
}

static bool copy_first(const struct zt_call *call, struct zt_err *err) {
    return call->device->api->copy(call->device, call->out[0].data, call->in[0].data, zt_all_bytes_of(&call->out[0]),
                                   err);
}

/* Prepares a node that sorts its indices; `bytes` says in how much room. */
#define ZT_PREPARE_SORTED(id, type, bytes)                                                                             \
    static bool id##_prepare(struct zt_prepare *q, struct zt_err *err) {                                               \
        if (!zt_describe_cuda(q, sizeof(struct type), err))                                                            \
            return false;                                                                                              \
        q->workspace_bytes = bytes(q->state);                                                                          \
        return q->workspace_bytes != SIZE_MAX || too_many(q, err);                                                     \
    }
static bool too_many(struct zt_prepare *q, struct zt_err *err) {
    free(q->state);
    return zt_fail(err, ZT_EXIT_MODEL, "%s: there are more indices than can be sorted on CUDA",
                   q->graph->nodes[q->node]->name);
}

static struct zt_launch_room room_of(const struct zt_call *call) {
    return (struct zt_launch_room){ call->workspace, zt_arrived_of(call) };
}

ZT_PREPARE_SORTED(gather_grad, zt_launch_gather, zt_launch_gather_grad_bytes)
static bool gather_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) &&
           zt_launched(call,
                       zt_launch_gather_grad(zt_stream_of(call), call->in[0].dtype, call->state, call->in[0].data,
                                             call->in[1].data, call->out[0].data, room_of(call)),
                       err);
}
ZT_KERNEL_CUDA(gather_grad)

ZT_PREPARE_CUDA(gather_elements, zt_launch_elements)
static bool gather_elements_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_gather_elements(zt_stream_of(call), bytes_of(&call->in[0]), call->state,
                                                 call->in[0].data, call->in[1].data, call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(gather_elements)

ZT_PREPARE_SORTED(put_elements, zt_launch_elements, zt_launch_put_elements_bytes)
static bool gather_elements_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) &&
           zt_launched(call,
                       zt_launch_put_elements(zt_stream_of(call), call->in[0].dtype, call->state, call->in[0].data,
                                              call->in[1].data, call->out[0].data, room_of(call)),
                       err);
}
const struct zt_kernel zt_kernel_gather_elements_grad_cuda = { .prepare = put_elements_prepare,
                                                               .run = gather_elements_grad_run,
                                                               .release = free };

static bool scatter_elements_run(const struct zt_call *call, struct zt_err *err) {
    return copy_first(call, err) &&
           zt_launched(call,
                       zt_launch_put_elements(zt_stream_of(call), call->in[0].dtype, call->state, call->in[2].data,
                                              call->in[1].data, call->out[0].data, room_of(call)),
                       err);
}
const struct zt_kernel zt_kernel_scatter_elements_cuda = { .prepare = put_elements_prepare,
                                                           .run = scatter_elements_run,
                                                           .release = free };

ZT_PREPARE_CUDA(gather_tuples, zt_launch_tuples)
static bool gather_tuples_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_gather_tuples(zt_stream_of(call), bytes_of(&call->in[0]), call->state,
                                               call->in[0].data, call->in[1].data, call->out[0].data),
                       err);
}
ZT_KERNEL_CUDA(gather_tuples)

ZT_PREPARE_SORTED(put_tuples, zt_launch_tuples, zt_launch_put_tuples_bytes)
static bool gather_tuples_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) &&
           zt_launched(call,
                       zt_launch_put_tuples(zt_stream_of(call), call->in[0].dtype, call->state, call->in[0].data,
                                            call->in[1].data, call->out[0].data, room_of(call)),
                       err);
}
const struct zt_kernel zt_kernel_gather_tuples_grad_cuda = { .prepare = put_tuples_prepare,
                                                             .run = gather_tuples_grad_run,
                                                             .release = free };

static bool scatter_tuples_run(const struct zt_call *call, struct zt_err *err) {
    return copy_first(call, err) &&
           zt_launched(call,
                       zt_launch_put_tuples(zt_stream_of(call), call->in[0].dtype, call->state, call->in[2].data,
                                            call->in[1].data, call->out[0].data, room_of(call)),
                       err);
}
const struct zt_kernel zt_kernel_scatter_tuples_cuda = { .prepare = put_tuples_prepare,
                                                         .run = scatter_tuples_run,
                                                         .release = free };
