/* Gathers, scatters and the gradients of gathers on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/movement/launch_gather.h"

static size_t bytes_of(const struct zt_view *v) {
    return zt_dtype_bytes(v->dtype);
}

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

static bool too_many(struct zt_prepare *q, struct zt_err *err) {
    free(q->state);
    return zt_fail(err, ZT_EXIT_MODEL, "%s: there are more indices than can be sorted on CUDA",
                   q->graph->nodes[q->node]->name);
}

/* Describes the node, whose indices are sorted in a workspace of bytes(state) bytes. */
static bool prepare_sorted(struct zt_prepare *q, size_t description, size_t (*bytes)(const void *state),
                           struct zt_err *err) {
    if (!zt_describe_cuda(q, description, err))
        return false;
    q->workspace_bytes = bytes(q->state);
    return q->workspace_bytes != SIZE_MAX || too_many(q, err);
}

static struct zt_launch_room room_of(const struct zt_call *call) {
    return (struct zt_launch_room){ call->workspace, zt_arrived_of(call) };
}

static size_t gather_grad_bytes(const void *state) {
    return zt_launch_gather_grad_bytes(state);
}
static bool gather_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare_sorted(q, sizeof(struct zt_launch_gather), gather_grad_bytes, err);
}
static bool gather_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) && zt_launched(call,
                                           zt_launch_gather_grad(zt_stream_of(call), call->state, zt_in_cuda(call, 0),
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

static size_t put_elements_bytes(const void *state) {
    return zt_launch_put_elements_bytes(state);
}
static bool put_elements_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare_sorted(q, sizeof(struct zt_launch_elements), put_elements_bytes, err);
}
static bool gather_elements_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) && zt_launched(call,
                                           zt_launch_put_elements(zt_stream_of(call), call->state, zt_in_cuda(call, 0),
                                                                  call->in[1].data, call->out[0].data, room_of(call)),
                                           err);
}
const struct zt_kernel zt_kernel_gather_elements_grad_cuda = { .prepare = put_elements_prepare,
                                                               .run = gather_elements_grad_run,
                                                               .release = free };

static bool scatter_elements_run(const struct zt_call *call, struct zt_err *err) {
    return copy_first(call, err) &&
           zt_launched(call,
                       zt_launch_put_elements(zt_stream_of(call), call->state, zt_in_cuda(call, 2), call->in[1].data,
                                              call->out[0].data, room_of(call)),
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

static size_t put_tuples_bytes(const void *state) {
    return zt_launch_put_tuples_bytes(state);
}
static bool put_tuples_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare_sorted(q, sizeof(struct zt_launch_tuples), put_tuples_bytes, err);
}
static bool gather_tuples_grad_run(const struct zt_call *call, struct zt_err *err) {
    return clear(call, err) && zt_launched(call,
                                           zt_launch_put_tuples(zt_stream_of(call), call->state, zt_in_cuda(call, 0),
                                                                call->in[1].data, call->out[0].data, room_of(call)),
                                           err);
}
const struct zt_kernel zt_kernel_gather_tuples_grad_cuda = { .prepare = put_tuples_prepare,
                                                             .run = gather_tuples_grad_run,
                                                             .release = free };

static bool scatter_tuples_run(const struct zt_call *call, struct zt_err *err) {
    return copy_first(call, err) &&
           zt_launched(call,
                       zt_launch_put_tuples(zt_stream_of(call), call->state, zt_in_cuda(call, 2), call->in[1].data,
                                            call->out[0].data, room_of(call)),
                       err);
}
const struct zt_kernel zt_kernel_scatter_tuples_cuda = { .prepare = put_tuples_prepare,
                                                         .run = scatter_tuples_run,
                                                         .release = free };
