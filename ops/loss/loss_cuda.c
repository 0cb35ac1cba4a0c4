/* Losses, their gradients and CountCorrect on CUDA: the description of the row together with the addresses of the
 * call. */
#include "ops/cuda/describe.h"
#include "ops/loss/launch_class_loss.h"
#include "ops/loss/launch_count_correct.h"
#include "ops/loss/launch_element_loss.h"
#include "ops/loss/launch_soft_loss.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/layout_cuda.h"

#include <stdlib.h>

static const void *data(const struct zt_view *views, int count, int i) {
    return i < count ? views[i].data : NULL;
}
static void *out(const struct zt_call *call, int i) {
    return i < call->out_count ? call->out[i].data : NULL;
}

/* ---- over classes ---- */

static bool class_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_loss), err))
        return false;
    q->workspace_bytes = zt_launch_loss_bytes(q->state);
    return true;
}

/* The logits may have filled rows; their gradient then has filled rows too. */
static bool class_train_prepare(struct zt_prepare *q, struct zt_err *err) {
    const struct zt_layout *laid = q->in_layout[1];
    for (int i = 0; i < q->graph->nodes[q->node]->in_count; i++)
        q->in_layout[i] = NULL;
    if (!class_prepare(q, err))
        return false;
    struct zt_launch_loss *l = q->state;
    if (l->inner == 1 && zt_layout_is_filled(laid)) {
        q->in_layout[1] = q->out_layout[0] = laid;
        zt_layout_fill(laid, &l->room);
    }
    return true;
}

/* x is input `first`; target, row weight (of rows that have one) and class weight follow. */
static struct zt_launch_loss class_job(const struct zt_call *call, int first) {
    struct zt_launch_loss l = *(const struct zt_launch_loss *)call->state;
    l.x = data(call->in, call->in_count, first);
    l.target = data(call->in, call->in_count, first + 1);
    l.row_weight = l.own ? data(call->in, call->in_count, first + 2) : NULL;
    l.class_weight = data(call->in, call->in_count, first + 2 + l.own);
    return l;
}

/* Ops of domain ztrain save log(sum(exp)), those of ONNX log p. */
static bool class_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_loss l = class_job(call, 0);
    return zt_launched(call,
                       zt_launch_cross_entropy(zt_stream_of(call), &l, call->out[0].data, l.own ? out(call, 1) : NULL,
                                               l.own ? NULL : out(call, 1), call->workspace),
                       err);
}

static bool class_grad_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_loss l = class_job(call, 1);
    return zt_launched(call,
                       zt_launch_cross_entropy_grad(zt_stream_of(call), &l, call->in[0].data,
                                                    data(call->in, call->in_count, 5), call->out[0].data,
                                                    call->workspace),
                       err);
}

/* (dloss, logits, target, row weight, class weight) -> dlogits, loss */
static bool class_train_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_loss l = class_job(call, 1);
    return zt_launched(call,
                       zt_launch_cross_entropy_train(zt_stream_of(call), &l, call->in[0].data, call->out[1].data,
                                                     call->out[0].data, call->workspace),
                       err);
}

static bool soft_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_loss l = class_job(call, 0);
    return zt_launched(
        call, zt_launch_soft_loss(zt_stream_of(call), &l, call->out[0].data, out(call, 1), call->workspace), err);
}

static bool soft_grad_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_loss l = class_job(call, 1);
    return zt_launched(call,
                       zt_launch_soft_loss_grad(zt_stream_of(call), &l, call->in[0].data, call->in[5].data,
                                                call->out[0].data, call->workspace),
                       err);
}

const struct zt_kernel zt_kernel_soft_loss_cuda = { .prepare = class_prepare, .run = soft_run, .release = free };
const struct zt_kernel zt_kernel_soft_loss_grad_cuda = { .prepare = class_prepare,
                                                         .run = soft_grad_run,
                                                         .release = free };
const struct zt_kernel zt_kernel_class_loss_cuda = { .prepare = class_prepare, .run = class_run, .release = free };
const struct zt_kernel zt_kernel_class_loss_grad_cuda = { .prepare = class_prepare,
                                                          .run = class_grad_run,
                                                          .release = free };
const struct zt_kernel zt_kernel_class_loss_train_cuda = {
    .prepare = class_train_prepare, .layouts = true, .rows = true, .run = class_train_run, .release = free
};

/* ---- element by element ---- */

static bool element_prepare(struct zt_prepare *q, struct zt_err *err) {
    q->workspace_bytes = ZT_ELEMENT_LOSS_BYTES;
    return zt_describe_cuda(q, sizeof(struct zt_launch_element_loss), err);
}

static struct zt_launch_element_loss element_job(const struct zt_call *call, int first) {
    struct zt_launch_element_loss l = *(const struct zt_launch_element_loss *)call->state;
    l.x = data(call->in, call->in_count, first);
    l.target = data(call->in, call->in_count, first + 1);
    l.weight = data(call->in, call->in_count, first + 2);
    return l;
}

static bool element_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_element_loss l = element_job(call, 0);
    return zt_launched(call, zt_launch_element_loss(zt_stream_of(call), &l, call->out[0].data, call->workspace), err);
}

static bool element_grad_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_element_loss l = element_job(call, 1);
    return zt_launched(
        call, zt_launch_element_loss_grad(zt_stream_of(call), &l, call->in[0].data, call->out[0].data, call->workspace),
        err);
}

const struct zt_kernel zt_kernel_element_loss_cuda = { .prepare = element_prepare,
                                                       .run = element_run,
                                                       .release = free };
const struct zt_kernel zt_kernel_element_loss_grad_cuda = { .prepare = element_prepare,
                                                            .run = element_grad_run,
                                                            .release = free };

/* ---- CountCorrect ---- */

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
