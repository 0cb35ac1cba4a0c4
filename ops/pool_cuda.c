/* Pools and their gradients on CUDA, plain or channels last as their tensors come. */
#include "ops/describe_cuda.h"
#include "ops/kernels_cuda.h"
#include "ops/layout_cuda.h"
#include "ops/pool.h"
#include "ops/window_cuda.h"

#include <stdlib.h>

typedef bool read_pool(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err);

static bool prepare(struct zt_prepare *p, read_pool *read, enum zt_dtype position, struct zt_err *err) {
    const struct zt_node *n = &p->graph->nodes[p->node];
    struct zt_pool pool;
    if (!read(p->graph, p->node, &pool, err))
        return false;
    /* positions and places lie as the results they are of */
    const int64_t channels = zt_layout_alike(p, ~0U, ~0U) ? zt_in(p->graph, p->node, 0)->shape.dim[1] : 1;
    struct zt_launch_pool *to = zt_malloc(sizeof *to);
    *to = (struct zt_launch_pool){ .dtype = zt_in(p->graph, p->node, 0)->dtype,
                                   .planes = pool.planes / channels,
                                   .channels = channels,
                                   .window = zt_window_cuda(&pool.window),
                                   .count_include_pad = pool.count_include_pad,
                                   .columns = zt_attr_int(n, "storage_order", 0) != 0,
                                   .position_bytes = (int)zt_dtype_bytes(position),
                                   .p = (float)zt_attr_int(n, "p", 2) };
    p->state = to;
    return true;
}

static bool forward_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_value *position = zt_out(p->graph, p->node, 1);
    return prepare(p, zt_pool_read, position ? position->dtype : ZT_UINT8, err);
}
static bool global_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, zt_pool_read_global, ZT_UINT8, err);
}
static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_value *position = zt_in(p->graph, p->node, 1);
    return prepare(p, zt_pool_read_grad, position ? position->dtype : ZT_UINT8, err);
}

/* MaxPool's second output is where in the input its maxima are. */
static bool max_run(const struct zt_call *call, struct zt_err *err) {
    int64_t *indices = call->out_count > 1 ? call->out[1].data : NULL;
    return zt_launched(
        call, zt_launch_pool_max(zt_stream_of(call), call->state, call->in[0].data, call->out[0].data, NULL, indices),
        err);
}
/* That of MaxPoolTrain is where in their windows. */
static bool max_train_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_pool_max(zt_stream_of(call), call->state, call->in[0].data, call->out[0].data,
                                          call->out[1].data, NULL),
                       err);
}
static bool mean_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call, zt_launch_pool_mean(zt_stream_of(call), call->state, call->in[0].data, call->out[0].data),
                       err);
}
static bool norm_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call, zt_launch_pool_norm(zt_stream_of(call), call->state, call->in[0].data, call->out[0].data),
                       err);
}
/* MaxPoolReluGrad has the pool's result as third input. */
static bool max_grad_run(const struct zt_call *call, struct zt_err *err) {
    const void *y = call->in_count > 2 ? call->in[2].data : NULL;
    return zt_launched(call,
                       zt_launch_pool_max_grad(zt_stream_of(call), call->state, call->in[0].data, call->in[1].data, y,
                                               call->out[0].data),
                       err);
}
static bool mean_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call, zt_launch_pool_sum_grad(zt_stream_of(call), call->state, call->in[0].data, true, call->out[0].data), err);
}
static bool sum_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call, zt_launch_pool_sum_grad(zt_stream_of(call), call->state, call->in[0].data, false, call->out[0].data),
        err);
}

#define KERNEL(id, prepare_, run_)                                                                                     \
    const struct zt_kernel zt_kernel_##id##_cuda = {                                                                   \
        .prepare = prepare_, .layouts = true, .run = run_, .release = free                                             \
    }
KERNEL(max_pool, forward_prepare, max_run);
KERNEL(max_pool_train, forward_prepare, max_train_run);
KERNEL(average_pool, forward_prepare, mean_run);
KERNEL(lp_pool, forward_prepare, norm_run);
KERNEL(global_max_pool, global_prepare, max_run);
KERNEL(global_average_pool, global_prepare, mean_run);
KERNEL(global_lp_pool, global_prepare, norm_run);
KERNEL(max_pool_grad, grad_prepare, max_grad_run);
KERNEL(average_pool_grad, grad_prepare, mean_grad_run);
KERNEL(sum_pool_grad, grad_prepare, sum_grad_run);
