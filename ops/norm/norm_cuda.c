/* Layer, RMS, instance and group normalisation with their gradients on CUDA: in half dtypes by cuDNN (norm_dnn.h)
 * where it accepts the node and has an engine, else by our own kernels (norm.cu), which also compute statistics
 * alone, and short rows, for which cuDNN takes several times as long as the memory (docs/performance-gpu.md). */
#include "ops/norm/norm_plan_cuda.h"

#include "ops/cuda/describe.h"
#include "ops/cuda/layout_cuda.h"

struct norm {
    struct zt_launch_norm own;
    int64_t parts; /* of the sums of a gradient */
    struct zt_norm_plan plan;
};

/* ---- preparing ---- */

/* x may be channels last where scale has an entry a channel: in instance normalisation, and in group normalisation
 * since opset 21. */
static bool prepare(struct zt_prepare *q, int x, unsigned ins, unsigned outs, struct zt_err *err) {
    struct norm *n = zt_calloc(1, sizeof *n);
    if (!zt_describe_to_cuda(q, &n->own, err)) {
        free(n);
        return false;
    }
    const struct zt_launch_norm *own = &n->own;
    const struct zt_shape *shape = &zt_in(q->graph, q->node, x)->shape;
    const bool channels =
        shape->rank > 2 && shape->dim[1] == own->period * own->per_row && shape->dim[0] * own->period == own->rows;
    n->own.last = zt_layout_alike(q, channels ? ins : 0, channels ? outs : 0);
    q->state = n;
    return true;
}

static void plan(struct zt_prepare *q, bool grad, const struct zt_dnn_place *places, int count) {
    struct norm *n = q->state;
    struct zt_norm_dnn form;
    q->path = zt_path_own("groups of several channels are unknown to cuDNN");
    if (!zt_norm_dnn_of(&n->own, &form))
        return;
    form.grad = grad;
    zt_norm_plan(q, &form, places, count, &n->plan);
}

/* ---- forward ---- */

/* cuDNN requires a bias where the mean is subtracted and accepts none elsewhere. */
static bool norm_prepare(struct zt_prepare *q, struct zt_err *err) {
    static const struct zt_dnn_place places[] = { ZT_DNN_IN(ZT_NORM_X, 0),     ZT_DNN_IN(ZT_NORM_SCALE, 1),
                                                  ZT_DNN_IN(ZT_NORM_BIAS, 2),  ZT_DNN_OUT(ZT_NORM_Y, 0),
                                                  ZT_DNN_OUT(ZT_NORM_MEAN, 1), ZT_DNN_OUT(ZT_NORM_INV_STD, 2) };
    if (!prepare(q, 0, 1, 1, err))
        return false;
    const struct zt_value *scale = zt_in(q->graph, q->node, 1), *bias = zt_in(q->graph, q->node, 2);
    const struct norm *n = q->state;
    const bool is_short = !n->own.last && zt_launch_norm_is_short(&n->own, zt_in(q->graph, q->node, 0)->dtype);
    q->path = zt_path_own(is_short ? "a warp holds a row"
                                   : "cuDNN wants a bias of the scale's type where the mean is taken off, else none");
    if (is_short)
        return true;
    if (n->own.centred ? bias && bias->dtype == scale->dtype : !bias)
        plan(q, false, places, sizeof places / sizeof *places);
    return true;
}
static bool norm_run(const struct zt_call *call, struct zt_err *err) {
    const struct norm *n = call->state;
    /* read when it is queued: cuDNN's types say nothing of const */
    void *data[ZT_DNN_TENSORS] = { [ZT_NORM_EPSILON] = (void *)&n->own.epsilon };
    if (n->plan.dnn)
        return zt_norm_plan_run(call, &n->plan, data, err);
    const struct zt_launch_norm_tensors t = { .x = zt_in_cuda(call, 0),
                                              .scale = zt_in_cuda(call, 1),
                                              .bias = zt_in_cuda(call, 2),
                                              .y = zt_out_cuda(call, 0),
                                              .mean = zt_out_cuda(call, 1),
                                              .inv_std = zt_out_cuda(call, 2) };
    return zt_launched(call, zt_launch_norm(zt_stream_of(call), &n->own, &t), err);
}
const struct zt_kernel zt_kernel_norm_cuda = {
    .prepare = norm_prepare, .layouts = true, .run = norm_run, .release = free
};

/* ---- statistics alone ---- */

static bool norm_stats_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, 0, 1, 0, err);
}
static bool norm_stats_run(const struct zt_call *call, struct zt_err *err) {
    const struct norm *n = call->state;
    const struct zt_launch_norm_tensors t = { .x = zt_in_cuda(call, 0),
                                              .mean = zt_out_cuda(call, 0),
                                              .inv_std = zt_out_cuda(call, 1) };
    return zt_launched(call, zt_launch_norm(zt_stream_of(call), &n->own, &t), err);
}
const struct zt_kernel zt_kernel_norm_stats_cuda = {
    .prepare = norm_stats_prepare, .layouts = true, .run = norm_stats_run, .release = free
};

/* ---- gradient ---- */

static bool norm_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!prepare(q, 1, 3, 1, err))
        return false;
    struct norm *n = q->state;
    n->parts = zt_launch_norm_grad_parts(&n->own);
    if (n->parts > 1)
        q->workspace_bytes = (size_t)(2 * n->parts * n->own.period * n->own.per_row) * sizeof(float);
    q->path = zt_path_own(zt_norm_grad_misfit);
    if (zt_norm_grad_fits(q, n->own.centred))
        plan(q, true, zt_norm_grad_places, ZT_NORM_PLACES);
    return true;
}
static bool norm_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct norm *n = call->state;
    void *data[ZT_DNN_TENSORS] = { 0 };
    if (n->plan.dnn)
        return zt_norm_plan_run(call, &n->plan, data, err);
    const struct zt_launch_norm_grad g = { .dy = zt_in_cuda(call, 0),
                                           .x = zt_in_cuda(call, 1),
                                           .scale = zt_in_cuda(call, 2),
                                           .mean = zt_in_cuda(call, 3),
                                           .inv_std = zt_in_cuda(call, 4),
                                           .dmean = zt_in_cuda(call, 5),
                                           .dinv_std = zt_in_cuda(call, 6),
                                           .dx = zt_out_cuda(call, 0),
                                           .dscale = zt_out_cuda(call, 1),
                                           .dbias = zt_out_cuda(call, 2),
                                           .parts = n->parts,
                                           .arrived = zt_arrived_of(call) };
    return zt_launched(call, zt_launch_norm_grad(zt_stream_of(call), &n->own, &g, call->workspace), err);
}
const struct zt_kernel zt_kernel_norm_grad_cuda = {
    .prepare = norm_grad_prepare, .layouts = true, .run = norm_grad_run, .release = free
};
