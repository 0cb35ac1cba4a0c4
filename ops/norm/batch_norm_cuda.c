/* Batch normalisation and its gradient on CUDA, over the samples of a rank and of all ranks. Over a rank's, in half
 * dtypes, cuDNN (norm_dnn.h) computes it where the statistics are the batch's and cuDNN has an engine; our own
 * kernels (norm.cu, batch_norm_rows.cu) compute everything else. Running statistics are our own: cuDNN's use the
 * sample variance, ONNX's the population variance. Over all ranks, the sums of up to MOST channels go to the host,
 * over the ranks and back while the stream waits: such a node is never part of a captured segment (ZT_OP_GROUP). */
#include "ops/norm/norm_plan_cuda.h"

#include "ops/cuda/describe.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/norm/launch_batch_norm.h"

static struct zt_launch_batch_norm_tensors forward_of(const struct zt_call *call) {
    return (struct zt_launch_batch_norm_tensors){ .x = zt_in_cuda(call, 0),
                                                  .scale = zt_in_cuda(call, 1),
                                                  .b = zt_in_cuda(call, 2),
                                                  .mean = zt_in_cuda(call, 3),
                                                  .var = zt_in_cuda(call, 4),
                                                  .arrived = zt_arrived_of(call),
                                                  .y = zt_out_cuda(call, 0),
                                                  .new_mean = zt_out_cuda(call, 1),
                                                  .new_var = zt_out_cuda(call, 2),
                                                  .batch_mean = zt_out_cuda(call, 3),
                                                  .inv_std = zt_out_cuda(call, 4) };
}

static struct zt_launch_batch_norm_grad backward_of(const struct zt_call *call) {
    return (struct zt_launch_batch_norm_grad){ .dy = zt_in_cuda(call, 0),
                                               .x = zt_in_cuda(call, 1),
                                               .scale = zt_in_cuda(call, 2),
                                               .mean = zt_in_cuda(call, 3),
                                               .inv_std = zt_in_cuda(call, 4),
                                               .arrived = zt_arrived_of(call),
                                               .dx = zt_out_cuda(call, 0),
                                               .dscale = zt_out_cuda(call, 1),
                                               .db = zt_out_cuda(call, 2) };
}

/* ---- of a rank ---- */

struct batch_norm {
    struct zt_launch_batch_norm own;
    struct zt_norm_plan plan;
    bool masks; /* dz, the input of cuDNN's gradient without ReLU: an output, or at masked_at in the workspace */
    size_t masked_at;
};

/* `ins`, `outs`: bits of the activations. *form: the layout of x. Our own kernels take channels last, and one place a
 * channel, as rows of channels, which many blocks share. */
static bool prepare_batch_norm(struct zt_prepare *q, unsigned ins, unsigned outs, struct zt_norm_dnn *form,
                               struct zt_err *err) {
    struct batch_norm *n = zt_calloc(1, sizeof *n);
    struct zt_launch_batch_norm *own = &n->own;
    if (!zt_describe_to_cuda(q, own, err)) {
        free(n);
        return false;
    }
    const bool last = zt_layout_alike(q, ins, outs);
    *form = (struct zt_norm_dnn){ .norm = ZT_DNN_BATCH_NORM,
                                  .samples = own->n,
                                  .channels = own->channels,
                                  .places = own->spatial,
                                  .last = last || own->spatial == 1 };
    if (form->last) {
        own->n *= own->spatial;
        own->spatial = 1;
        own->parts = zt_launch_batch_norm_parts(own);
    }
    q->workspace_bytes = zt_launch_batch_norm_bytes(own);
    q->state = n;
    return true;
}

static void plan_forward(struct zt_prepare *q, struct zt_norm_dnn *form) {
    static const struct zt_dnn_place places[] = { ZT_DNN_IN(ZT_NORM_X, 0),     ZT_DNN_IN(ZT_NORM_SCALE, 1),
                                                  ZT_DNN_IN(ZT_NORM_BIAS, 2),  ZT_DNN_OUT(ZT_NORM_Y, 0),
                                                  ZT_DNN_OUT(ZT_NORM_MEAN, 3), ZT_DNN_OUT(ZT_NORM_INV_STD, 4) };
    struct batch_norm *n = q->state;
    q->path = zt_path_own("statistics are given, or variances kept, or scale and bias differ in type");
    if (!n->own.fixed && !n->own.keeps_var && zt_in(q->graph, q->node, 1)->dtype == zt_in(q->graph, q->node, 2)->dtype)
        zt_norm_plan(q, form, places, sizeof places / sizeof *places, &n->plan);
}
static bool batch_norm_prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_norm_dnn form;
    if (!prepare_batch_norm(q, 1, 1, &form, err))
        return false;
    plan_forward(q, &form);
    return true;
}
static bool batch_norm_run(const struct zt_call *call, struct zt_err *err) {
    const struct batch_norm *n = call->state;
    struct zt_launch_batch_norm_tensors t = forward_of(call);
    /* read when it is queued: cuDNN's types say nothing of const */
    void *data[ZT_DNN_TENSORS] = { [ZT_NORM_EPSILON] = (void *)&n->own.epsilon };
    if (!n->plan.dnn)
        return zt_launched(call, zt_launch_batch_norm(zt_stream_of(call), &n->own, &t, call->workspace), err);
    if (!zt_norm_plan_run(call, &n->plan, data, err))
        return false;
    const struct zt_launch_running running = {
        .epsilon = n->own.epsilon,
        .momentum = n->own.momentum,
        .mean_dtype = t.mean.dtype,
        .var_dtype = t.var.dtype,
        .count = 1,
        .norm = { { n->own.channels, data[ZT_NORM_MEAN], data[ZT_NORM_INV_STD], t.mean.data, t.var.data,
                    t.new_mean.data, t.new_var.data } },
    };
    const bool elsewhere = !t.new_mean.data && !t.new_var.data; /* BatchNormStatistics has them */
    return elsewhere || zt_launched(call, zt_launch_batch_norm_running(zt_stream_of(call), &running), err);
}
const struct zt_kernel zt_kernel_batch_norm_cuda = {
    .prepare = batch_norm_prepare, .layouts = true, .run = batch_norm_run, .release = free
};

/* cuDNN does not promise that its engines with ReLU behind statistics pass NaN. On planes, where
 * our own block has whole channels, cuDNN normalises and a second kernel applies ReLU. */
static bool batch_norm_relu_prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_norm_dnn form;
    q->path = zt_path_own("cuDNN's ReLU behind statistics of the batch does not promise to pass NaN");
    if (!prepare_batch_norm(q, 1 | 1 << 5, 1, &form, err))
        return false;
    if (!form.last)
        plan_forward(q, &form);
    return true;
}
static bool batch_norm_relu_run(const struct zt_call *call, struct zt_err *err) {
    const struct batch_norm *n = call->state;
    struct zt_launch_batch_norm_tensors t = forward_of(call);
    t.z = zt_in_cuda(call, 5);
    if (n->plan.dnn)
        return batch_norm_run(call, err) &&
               zt_launched(call,
                           zt_launch_batch_norm_relu(zt_stream_of(call), zt_shape_count(&call->out[0].shape), t.y, t.z),
                           err);
    return zt_launched(call, zt_launch_batch_norm(zt_stream_of(call), &n->own, &t, call->workspace), err);
}
const struct zt_kernel zt_kernel_batch_norm_relu_cuda = {
    .prepare = batch_norm_relu_prepare, .layouts = true, .run = batch_norm_relu_run, .release = free
};

static bool statistics_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_running r = { .epsilon = zt_attr_float(call->node, "epsilon", 1e-5F),
                                   .momentum = zt_attr_float(call->node, "momentum", 0.9F),
                                   .mean_dtype = ZT_FLOAT,
                                   .var_dtype = ZT_FLOAT,
                                   .count = call->in_count / 4 };
    for (int k = 0; k < r.count; k++) {
        const struct zt_view *in = &call->in[4 * k], *out = &call->out[2 * k];
        r.norm[k] = (struct zt_launch_running_norm){
            zt_shape_count(&in->shape), in[0].data, in[1].data, in[2].data, in[3].data, out[0].data, out[1].data
        };
    }
    return zt_launched(call, zt_launch_batch_norm_running(zt_stream_of(call), &r), err);
}
const struct zt_kernel zt_kernel_batch_norm_statistics_cuda = { .run = statistics_run };

static bool batch_norm_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_norm_dnn form;
    if (!prepare_batch_norm(q, 3, 1, &form, err))
        return false;
    struct batch_norm *n = q->state;
    form.grad = true;
    q->path = zt_path_own(n->own.fixed ? "statistics are given" : zt_norm_grad_misfit);
    if (!n->own.fixed && zt_norm_grad_fits(q, true))
        zt_norm_plan(q, &form, zt_norm_grad_places, ZT_NORM_PLACES, &n->plan);
    return true;
}
static bool batch_norm_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct batch_norm *n = call->state;
    struct zt_launch_batch_norm_grad g = backward_of(call);
    void *data[ZT_DNN_TENSORS] = { 0 };
    if (n->plan.dnn)
        return zt_norm_plan_run(call, &n->plan, data, err);
    g.dmean = zt_in_cuda(call, 5);
    g.dvar = zt_in_cuda(call, 6);
    return zt_launched(call, zt_launch_batch_norm_grad(zt_stream_of(call), &n->own, &g, call->workspace), err);
}
const struct zt_kernel zt_kernel_batch_norm_grad_cuda = {
    .prepare = batch_norm_grad_prepare, .layouts = true, .run = batch_norm_grad_run, .release = free
};

/* ReLU's gradient by a kernel in front of cuDNN's gradient, whose input is then dz; place 0 is that of dy. cuDNN's own
 * engine for both (CMP_GT, MUL, NORM_BWD, in 9.19) wants ReLU's bits in memory: it plans the graph where they are
 * virtual, and reads from a wild address (H100). */
static void plan_masked(struct zt_prepare *q, struct zt_norm_dnn *form) {
    struct batch_norm *n = q->state;
    const struct zt_value *dy = zt_in(q->graph, q->node, 0);
    zt_norm_plan(q, form, zt_norm_grad_places + 1, ZT_NORM_PLACES - 1, &n->plan);
    n->masks = n->plan.dnn != NULL;
    if (!n->masks || zt_out(q->graph, q->node, 3))
        return;
    n->masked_at = zt_room_cuda(q->workspace_bytes);
    q->workspace_bytes = n->masked_at + (size_t)zt_value_bytes(dy);
}
static bool run_masked(const struct zt_call *call, const struct zt_launch_batch_norm_grad *g, struct zt_err *err) {
    const struct batch_norm *n = call->state;
    void *data[ZT_DNN_TENSORS] = { 0 };
    struct zt_launch_tensor dz = { g->dy.dtype, g->dz.data };
    if (!dz.data)
        dz.data = (char *)call->workspace + n->masked_at;
    data[ZT_NORM_DY] = dz.data;
    return zt_launched(
               call, zt_launch_batch_norm_mask(zt_stream_of(call), zt_shape_count(&call->in[0].shape), g->dy, g->y, dz),
               err) &&
           zt_norm_plan_run(call, &n->plan, data, err);
}

static bool batch_norm_relu_grad_prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_norm_dnn form;
    if (!prepare_batch_norm(q, 3 | 1 << 5, 1 | 1 << 3, &form, err))
        return false;
    const bool all = zt_out(q->graph, q->node, 0) && zt_out(q->graph, q->node, 1) && zt_out(q->graph, q->node, 2);
    form.grad = true;
    q->path = zt_path_own(all ? "cuDNN's gradient with ReLU wants ReLU's bits" : zt_norm_grad_misfit);
    if (all && !form.last)
        plan_masked(q, &form);
    return true;
}
static bool batch_norm_relu_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct batch_norm *n = call->state;
    struct zt_launch_batch_norm_grad g = backward_of(call);
    g.y = zt_in_cuda(call, 5);
    g.dz = zt_out_cuda(call, 3);
    if (n->masks)
        return run_masked(call, &g, err);
    return zt_launched(call, zt_launch_batch_norm_grad(zt_stream_of(call), &n->own, &g, call->workspace), err);
}
const struct zt_kernel zt_kernel_batch_norm_relu_grad_cuda = {
    .prepare = batch_norm_relu_grad_prepare, .layouts = true, .run = batch_norm_relu_grad_run, .release = free
};

/* ---- of all ranks ---- */

enum { MOST = (ZT_CUDA_SCRATCH / (int)sizeof(double) - 1) / 2 };

/* Adds up two sums a channel and the number of elements that count. */
static bool add_ranks(const struct zt_call *call, int64_t channels, struct zt_err *err) {
    const struct zt_device_api *api = call->device->api;
    const struct zt_launch_norm_sync *n = call->state;
    const int count = (int)(2 * channels + 1);
    const size_t bytes = (size_t)count * sizeof(double);
    double *there = zt_cuda_scratch(call->device), *here = zt_cuda_pinned(call->device);
    if (n->alone || !call->group)
        return true;
    return api->to_host(call->device, here, there, bytes, err) && api->synchronize(call->device, err) &&
           call->group->sum(call->group->with, here, count, err) &&
           api->to_device(call->device, there, here, bytes, err);
}

static bool run(const struct zt_call *call, const struct zt_launch_norm_sync_tensors *t, struct zt_err *err) {
    const struct zt_launch_norm_sync *n = call->state;
    double *sums = zt_cuda_scratch(call->device);
    for (int64_t first = 0; first < n->channels; first += MOST) {
        const int64_t count = n->channels - first < MOST ? n->channels - first : MOST;
        if (!zt_launched(call, zt_launch_norm_sync_sums(zt_stream_of(call), n, t, first, count, sums), err) ||
            !add_ranks(call, count, err) ||
            !zt_launched(call, zt_launch_norm_sync_apply(zt_stream_of(call), n, t, first, count, sums), err))
            return false;
    }
    return true;
}

ZT_PREPARE_CUDA(batch_norm_sync, zt_launch_norm_sync)
static bool batch_norm_sync_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_norm_sync_tensors t = { .forward = forward_of(call), .weights = zt_in_cuda(call, 5) };
    return run(call, &t, err);
}
ZT_KERNEL_CUDA(batch_norm_sync)

ZT_PREPARE_CUDA(batch_norm_sync_grad, zt_launch_norm_sync)
static bool batch_norm_sync_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_launch_norm_sync_tensors t = { .grad = backward_of(call), .weights = zt_in_cuda(call, 5) };
    return run(call, &t, err);
}
ZT_KERNEL_CUDA(batch_norm_sync_grad)
