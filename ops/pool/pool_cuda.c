/* Pools and their gradients on CUDA, plain or channels last as their tensors arrive.
 *
 * cuDNN (pool_dnn.h) runs average pooling, its gradient, and max pooling without positions, where it has an engine
 * and both tensors are aligned to 16 bytes. In fp32 cuDNN's gradient engines use tensor cores and are taken where
 * fp32 may be rounded to TF32. Our own kernels run everything else, max pooling in training among it: of equal
 * elements the first receives the gradient, as on every back end, and the gradient of a ReLU is part of the kernel. */
#include "device/cuda.h"
#include "ops/cuda/describe.h"
#include "ops/cuda/dnn_places_cuda.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/cuda/window_cuda.h"
#include "ops/pool/launch_pool.h"
#include "ops/pool/pool_dnn.h"

#include <stdlib.h>

struct pool {
    struct zt_launch_pool own;
    const struct zt_dnn *dnn; /* NULL: our own kernels */
};

/* ---- preparing ---- */

typedef bool read_pool(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err);

/* Whether x or dx is channels last. Positions and indices have the same layout. */
static bool lies_last(struct zt_prepare *p, bool grad) {
    return p->settled ? zt_layout_is_last(grad ? p->out_layout[0] : p->in_layout[0]) : zt_layout_alike(p, ~0U, ~0U);
}

/* Chooses layouts: if x or dx is channels last, y or dy may be plain. The gradient of a sum, which reads dy alone, may
 * also read a plain dy and write dx channels last. */
static void transpose(struct zt_prepare *p, struct zt_launch_pool *own, bool grad, bool last) {
    const int inputs = p->graph->nodes[p->node]->in_count;
    if (!zt_launch_pool_can_transpose(own))
        return;
    if (!grad) {
        own->plain_result = last && !p->out_layout[0];
        p->free_out = last;
    } else if (last) {
        own->plain_dy = !p->in_layout[0];
        own->plain_y = inputs > 2 && !p->in_layout[2];
        p->free_in = inputs > 2 ? 1 << 0 | 1 << 2 : 1 << 0;
    } else {
        p->free_out = inputs == 1 && !zt_layout_either(&zt_out(p->graph, p->node, 0)->shape);
    }
}

static bool prepare(struct zt_prepare *p, read_pool *read, struct zt_pool *pool, enum zt_dtype position,
                    struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    if (!read(p->graph, p->node, pool, err))
        return false;
    const bool grad = read == zt_pool_read_grad, last = lies_last(p, grad);
    const int64_t channels = last ? zt_in(p->graph, p->node, 0)->shape.dim[1] : 1;
    struct pool *to = zt_calloc(1, sizeof *to);
    to->own = (struct zt_launch_pool){ .dtype = zt_in(p->graph, p->node, 0)->dtype,
                                       .planes = pool->planes / channels,
                                       .channels = channels,
                                       .window = zt_window_cuda(&pool->window),
                                       .count_include_pad = pool->count_include_pad,
                                       .columns = zt_attr_int(n, "storage_order", 0) != 0,
                                       .position_bytes = (int)zt_dtype_bytes(position),
                                       .p = (float)zt_attr_int(n, "p", 2) };
    transpose(p, &to->own, grad, last);
    p->state = to;
    return true;
}

/* cuDNN's, where it has an engine. */
static void plan(struct zt_prepare *p, const struct zt_pool *pool, bool largest, bool grad) {
    const struct zt_value *first = zt_in(p->graph, p->node, 0);
    struct pool *to = p->state;
    const struct zt_pool_dnn form = { .largest = largest,
                                      .grad = grad,
                                      .last = zt_layout_is_last(p->in_layout[0]) || zt_layout_is_last(p->out_layout[0]),
                                      .dtype = first->dtype,
                                      .n = first->shape.dim[0],
                                      .c = first->shape.dim[1] };
    struct zt_dnn_graph graph;
    p->path = zt_path_own(zt_pool_dnn_refusal(pool, &form));
    if (p->path.note)
        return;
    zt_pool_dnn(pool, &form, &graph);
    graph.tensor_cores = p->device->tf32;
    to->dnn = zt_path_dnn(p, &graph);
    p->workspace_bytes = to->dnn ? zt_dnn_workspace_bytes(to->dnn) : 0;
    if (to->dnn) /* whose tensors lie alike */
        p->free_in = p->free_out = 0;
}

static const char no_lp[] = "cuDNN has no Lp pool";

static bool train_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_pool pool;
    p->path = zt_path_own("cuDNN gives no places of maxima");
    return prepare(p, zt_pool_read, &pool, zt_out(p->graph, p->node, 1)->dtype, err);
}
static bool norm_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_pool pool;
    p->path = zt_path_own(no_lp);
    return prepare(p, zt_pool_read, &pool, ZT_UINT8, err);
}
static bool global_norm_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_pool pool;
    p->path = zt_path_own(no_lp);
    return prepare(p, zt_pool_read_global, &pool, ZT_UINT8, err);
}
static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_pool pool;
    const struct zt_value *position = zt_in(p->graph, p->node, 1);
    p->path =
        zt_path_own(position ? "of equal maxima the first has the gradient, which cuDNN does not promise" : no_lp);
    return prepare(p, zt_pool_read_grad, &pool, position ? position->dtype : ZT_UINT8, err);
}

/* Those that cuDNN may compute. */
static bool planned(struct zt_prepare *p, read_pool *read, bool largest, bool grad, struct zt_err *err) {
    struct zt_pool pool;
    if (!prepare(p, read, &pool, ZT_UINT8, err))
        return false;
    const struct zt_launch_pool *own = &((const struct pool *)p->state)->own;
    p->path = zt_path_own(zt_out(p->graph, p->node, 1) ? "cuDNN gives no places of maxima"
                                                       : "one of its tensors is plain, the other channels last");
    if (!zt_out(p->graph, p->node, 1) && !own->plain_result && !own->plain_dy)
        plan(p, &pool, largest, grad);
    return true;
}
static bool max_prepare(struct zt_prepare *p, struct zt_err *err) {
    return planned(p, zt_pool_read, true, false, err);
}
static bool average_prepare(struct zt_prepare *p, struct zt_err *err) {
    return planned(p, zt_pool_read, false, false, err);
}
static bool global_max_prepare(struct zt_prepare *p, struct zt_err *err) {
    return planned(p, zt_pool_read_global, true, false, err);
}
static bool global_average_prepare(struct zt_prepare *p, struct zt_err *err) {
    return planned(p, zt_pool_read_global, false, false, err);
}
static bool average_grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    return planned(p, zt_pool_read_grad, false, true, err);
}

/* ---- running ---- */

/* cuDNN takes both tensors where they are. */
static bool is_dnn(const struct zt_call *call) {
    const struct pool *s = call->state;
    const bool placed = zt_dnn_is_placed(call->in[0].data) && zt_dnn_is_placed(call->out[0].data);
    if (s->dnn && !placed)
        zt_path_misplaced(call);
    return s->dnn && placed;
}

static bool run_dnn(const struct zt_call *call, bool grad, struct zt_err *err) {
    const struct pool *s = call->state;
    void *data[ZT_DNN_TENSORS] = { [ZT_POOL_X] = grad ? call->out[0].data : call->in[0].data,
                                   [ZT_POOL_Y] = grad ? call->in[0].data : call->out[0].data };
    return zt_dnn_run(s->dnn, data, call->workspace, call->node->name, err);
}

/* MaxPool's second output is where in the input its maxima are. */
static bool max_run(const struct zt_call *call, struct zt_err *err) {
    const struct pool *s = call->state;
    int64_t *indices = call->out_count > 1 ? call->out[1].data : NULL;
    return is_dnn(call) ? run_dnn(call, false, err)
                        : zt_launched(call,
                                      zt_launch_pool_max(zt_stream_of(call), &s->own, call->in[0].data,
                                                         call->out[0].data, NULL, indices),
                                      err);
}
/* That of MaxPoolTrain is where in their windows. */
static bool max_train_run(const struct zt_call *call, struct zt_err *err) {
    const struct pool *s = call->state;
    return zt_launched(
        call,
        zt_launch_pool_max(zt_stream_of(call), &s->own, call->in[0].data, call->out[0].data, call->out[1].data, NULL),
        err);
}
static bool average_run(const struct zt_call *call, struct zt_err *err) {
    const struct pool *s = call->state;
    return is_dnn(call)
               ? run_dnn(call, false, err)
               : zt_launched(call,
                             zt_launch_pool_average(zt_stream_of(call), &s->own, call->in[0].data, call->out[0].data),
                             err);
}
static bool norm_run(const struct zt_call *call, struct zt_err *err) {
    const struct pool *s = call->state;
    return zt_launched(call, zt_launch_pool_norm(zt_stream_of(call), &s->own, call->in[0].data, call->out[0].data),
                       err);
}
/* MaxPoolReluGrad has the pool's result as third input. */
static bool max_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct pool *s = call->state;
    const void *y = call->in_count > 2 ? call->in[2].data : NULL;
    return zt_launched(
        call,
        zt_launch_pool_max_grad(zt_stream_of(call), &s->own, call->in[0].data, call->in[1].data, y, call->out[0].data),
        err);
}
static bool own_grad_run(const struct zt_call *call, bool average, struct zt_err *err) {
    const struct pool *s = call->state;
    return zt_launched(
        call, zt_launch_pool_sum_grad(zt_stream_of(call), &s->own, call->in[0].data, average, call->out[0].data), err);
}
static bool average_grad_run(const struct zt_call *call, struct zt_err *err) {
    return is_dnn(call) ? run_dnn(call, true, err) : own_grad_run(call, true, err);
}
static bool sum_grad_run(const struct zt_call *call, struct zt_err *err) {
    return own_grad_run(call, false, err);
}

#define KERNEL(id, prepare_, run_)                                                                                     \
    const struct zt_kernel zt_kernel_##id##_cuda = {                                                                   \
        .prepare = prepare_, .layouts = true, .run = run_, .release = free                                             \
    }
KERNEL(max_pool, max_prepare, max_run);
KERNEL(max_pool_train, train_prepare, max_train_run);
KERNEL(average_pool, average_prepare, average_run);
KERNEL(lp_pool, norm_prepare, norm_run);
KERNEL(global_max_pool, global_max_prepare, max_run);
KERNEL(global_average_pool, global_average_prepare, average_run);
KERNEL(global_lp_pool, global_norm_prepare, norm_run);
KERNEL(max_pool_grad, grad_prepare, max_grad_run);
KERNEL(average_pool_grad, average_grad_prepare, average_grad_run);
KERNEL(sum_pool_grad, grad_prepare, sum_grad_run);
