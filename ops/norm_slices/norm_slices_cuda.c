/* LRN, MeanVarianceNormalization and LpNormalization with their gradients on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/cuda/broadcast_cuda.h"
#include "ops/norm_slices/launch_norm_slices.h"
#include "ops/norm_slices/norm_slices.h"
#include "ops/kernel/merge_axes.h"

#include <string.h>

/* The first `inputs` inputs keep their layout. With channels last the channels of a place are contiguous. */
static bool prepare_lrn(struct zt_prepare *q, int inputs, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_lrn), err))
        return false;
    struct zt_launch_lrn *n = q->state;
    if (zt_layout_alike(q, (1U << inputs) - 1, 1)) {
        n->outer *= n->inner;
        n->inner = 1;
    }
    return true;
}

static bool lrn_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare_lrn(q, 1, err);
}
static bool lrn_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call, zt_launch_lrn(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_out_cuda(call, 0)),
                       err);
}
const struct zt_kernel zt_kernel_lrn_cuda = {
    .prepare = lrn_prepare, .layouts = true, .run = lrn_run, .release = free
};

static bool lrn_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!prepare_lrn(q, 2, err))
        return false;
    const struct zt_launch_lrn *n = q->state;
    q->workspace_bytes = (size_t)(n->outer * n->channels * n->inner) * sizeof(float);
    return true;
}
static bool lrn_grad_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_lrn_grad(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1),
                                          zt_out_cuda(call, 0), call->workspace),
                       err);
}
const struct zt_kernel zt_kernel_lrn_grad_cuda = {
    .prepare = lrn_grad_prepare, .layouts = true, .run = lrn_grad_run, .release = free
};

/* Writes the merged axes of one side; returns their number. */
static int merge_side(const struct zt_shape *shape, const int64_t *step, int64_t *dim, int64_t *to) {
    memcpy(dim, shape->dim, sizeof shape->dim);
    memcpy(to, step, (size_t)shape->rank * sizeof *to);
    return zt_merge_axes(shape->rank, dim, 1, &to);
}

static bool mvn_prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_mvn mvn;
    if (!zt_describe_to_cuda(q, &mvn, err))
        return false;
    struct zt_launch_mvn *n = zt_calloc(1, sizeof *n);
    n->groups = zt_shape_count(&mvn.groups);
    n->reduced = zt_shape_count(&mvn.over);
    n->group_axes = merge_side(&mvn.groups, mvn.group_step, n->group_dim, n->group_step);
    n->reduced_axes = merge_side(&mvn.over, mvn.over_step, n->reduced_dim, n->reduced_step);
    q->state = n;
    return true;
}
/* The inputs of the gradient are dy and x. */
static bool mvn_run(const struct zt_call *call, struct zt_err *err) {
    const bool grad = call->in_count > 1;
    const struct zt_launch_tensor none = { ZT_FLOAT, NULL };
    return zt_launched(call,
                       zt_launch_mvn(zt_stream_of(call), call->state, grad ? zt_in_cuda(call, 0) : none,
                                     zt_in_cuda(call, grad), zt_out_cuda(call, 0)),
                       err);
}
ZT_KERNEL_CUDA(mvn)

ZT_PREPARE_CUDA(lp, zt_launch_lp)
static bool lp_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call,
        zt_launch_lp(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1), zt_out_cuda(call, 0)),
        err);
}
ZT_KERNEL_CUDA(lp)
