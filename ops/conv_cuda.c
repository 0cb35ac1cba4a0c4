/* Convolutions on CUDA: cuDNN's graphs (conv_dnn.h), with the bias in the same graph where cuDNN has an engine for
 * that, else behind it; our own kernels (conv.cu) where it has none for the convolution either. ReLU is left to others:
 * the engines that take it in promise nothing about NaN.
 *
 * cuDNN wants addresses that are multiples of 16, and a parameter lies where the tensors before it in the flat block
 * end: weights and biases have room in the workspace, to which they are copied where they lie otherwise. A weight's
 * gradient is computed there too where it is added to what there is. Planes of activations begin at such multiples;
 * where some do not, our own kernels take them. */
#include "ops/conv_dnn.h"
#include "ops/kernels_cuda.h"
#include "ops/launch_reduce.h"
#include "ops/walk_cuda.h"

#include "device/cuda.h"

#include <stdlib.h>

enum { PLACE = 256 }; /* what offsets into the workspace are multiples of */

struct conv {
    const struct zt_conv_roles *roles;
    struct zt_dnn *dnn; /* NULL: our own kernels */
    bool fused;         /* the bias is in the graph */
    struct zt_launch_conv own;
    struct zt_launch_reduce sums; /* of y's channels */
    /* workspace [ weight | bias, or partial sums | cuDNN's ] */
    size_t weight_bytes, bias_bytes, bias_at, scratch_at;
};

static void release(void *state) {
    struct conv *c = state;
    if (c)
        zt_dnn_destroy(c->dnn);
    free(c);
}

/* ---- preparing ---- */

/* NULL where cuDNN has no engine. */
static struct zt_dnn *plan(const struct zt_prepare *p, const struct zt_conv *conv, const struct conv *c, bool bias) {
    struct zt_err why = { 0 };
    struct zt_dnn_graph graph;
    zt_conv_dnn(conv, c->roles->way, c->own.dtype, bias, &graph);
    graph.tensor_cores = p->device->tf32;
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &why);
    if (dnn && zt_dnn_plan(dnn, p->device, &why))
        return dnn;
    zt_dnn_destroy(dnn);
    return NULL;
}

/* The gradient of the bias from y's, [n, m, plane]. */
static struct zt_launch_reduce channel_sums(const struct zt_conv *conv) {
    const int64_t plane = conv->window.out_elems;
    struct zt_launch_reduce r = { .fold = ZT_FOLD_SUM,
                                  .kept_axes = 1,
                                  .kept_dim = { conv->m },
                                  .kept_step = { plane },
                                  .over_axes = 2,
                                  .over_dim = { conv->n, plane },
                                  .over_step = { conv->m * plane, 1 },
                                  .kept = conv->m,
                                  .over = conv->n * plane };
    r.parts = zt_launch_reduce_parts(&r);
    return r;
}

static size_t room(size_t bytes) {
    return (bytes + PLACE - 1) / PLACE * PLACE;
}

static void place(struct zt_prepare *p, struct conv *c, const struct zt_conv *conv) {
    const size_t bytes = zt_dtype_bytes(c->own.dtype);
    const bool weight = c->roles->way == ZT_CONV_TO_W;
    c->weight_bytes = (size_t)(conv->m * (conv->c / conv->groups) * conv->window.kernel_elems) * bytes;
    c->bias_bytes = c->fused ? (size_t)conv->m * bytes : 0;
    c->bias_at = room(c->weight_bytes);
    const size_t sums = weight && c->sums.parts > 1 ? (size_t)(c->sums.kept * c->sums.parts) * sizeof(float) : 0;
    c->scratch_at = c->bias_at + room(c->bias_bytes + sums); /* never both */
    p->workspace_bytes = c->scratch_at + (c->dnn ? zt_dnn_workspace_bytes(c->dnn) : 0);
}

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_conv_roles *roles = zt_conv_roles(&g->nodes[p->node]);
    struct zt_conv conv;
    if (!zt_dnn_ready(p->device, err) || !roles->read(g, p->node, &conv, err))
        return false;
    struct conv *c = zt_calloc(1, sizeof *c);
    c->roles = roles;
    c->own = zt_conv_launch(&conv, zt_in(g, p->node, 0)->dtype);
    c->sums = channel_sums(&conv);
    if (roles->way == ZT_CONV_TO_Y && zt_in(g, p->node, 2))
        c->dnn = plan(p, &conv, c, true);
    c->fused = c->dnn != NULL;
    if (!c->dnn)
        c->dnn = plan(p, &conv, c, false);
    place(p, c, &conv);
    p->state = c;
    p->can_accumulate = roles->way == ZT_CONV_TO_W;
    return true;
}

/* ---- running ---- */

static bool run_dnn(const struct zt_call *call, const struct conv *c, void **data, struct zt_err *err) {
    char *room_at = call->workspace;
    if (c->roles->way != ZT_CONV_TO_W && !zt_dnn_bring(call->device, &data[ZT_DNN_W], room_at, c->weight_bytes, err))
        return false;
    if (c->bias_bytes && !zt_dnn_bring(call->device, &data[ZT_DNN_BIAS], room_at + c->bias_at, c->bias_bytes, err))
        return false;
    return zt_dnn_run(c->dnn, data, room_at + c->scratch_at, call->node->name, err);
}

static bool run_own(const struct zt_call *call, const struct conv *c, void *const *data, struct zt_err *err) {
    struct CUstream_st *stream = zt_cuda_stream(call->device);
    void *x = data[ZT_DNN_X], *w = data[ZT_DNN_W], *y = data[ZT_DNN_Y];
    int code = c->roles->way == ZT_CONV_TO_Y   ? zt_launch_conv_to_y(stream, &c->own, x, w, y)
               : c->roles->way == ZT_CONV_TO_X ? zt_launch_conv_to_x(stream, &c->own, x, w, y)
                                               : zt_launch_conv_to_w(stream, &c->own, x, w, y);
    return zt_cuda_good(call->device, code, err, call->node->name);
}

/* The bias behind the convolution, in place. */
static bool add_bias(const struct zt_call *call, const struct conv *c, const void *bias, struct zt_err *err) {
    const struct zt_shape *y = &call->out[0].shape;
    struct zt_shape channels = { .rank = y->rank - 1, .dim = { y->dim[1] } };
    for (int k = 1; k < channels.rank; k++)
        channels.dim[k] = 1;
    struct zt_launch_walk walk = zt_walk_cuda(y, y, &channels);
    void *to = call->out[0].data;
    int code = zt_launch_add(zt_cuda_stream(call->device), c->own.dtype, &walk, to, bias, to);
    return zt_cuda_good(call->device, code, err, call->node->name);
}

/* dw from the workspace to its place, and db, which is always written anew. */
static bool finish_weight(const struct zt_call *call, const struct conv *c, const void *dw, const void *dy,
                          struct zt_err *err) {
    struct CUstream_st *stream = zt_cuda_stream(call->device);
    void *to = call->out[0].data, *db = call->out_count > 1 ? call->out[1].data : NULL;
    if (dw != to && call->accumulate) {
        struct zt_launch_walk walk = zt_walk_cuda(&call->out[0].shape, &call->out[0].shape, &call->out[0].shape);
        if (!zt_cuda_good(call->device, zt_launch_add(stream, c->own.dtype, &walk, to, dw, to), err, call->node->name))
            return false;
    } else if (dw != to && !call->device->api->copy(call->device, to, dw, c->weight_bytes, err)) {
        return false;
    }
    int code =
        db ? zt_launch_reduce(stream, c->own.dtype, &c->sums, dy, db, (void *)((char *)call->workspace + c->bias_at))
           : 0;
    return zt_cuda_good(call->device, code, err, call->node->name);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct conv *c = call->state;
    void *data[ZT_DNN_TENSORS] = { 0 };
    for (int i = ZT_DNN_X; i <= ZT_DNN_Y; i++)
        data[i] = c->roles->of[i] == ZT_CONV_OUT ? call->out[0].data : call->in[c->roles->of[i]].data;
    void *bias = data[ZT_DNN_BIAS] = call->in_count > 2 ? call->in[2].data : NULL;
    const bool weight = c->roles->way == ZT_CONV_TO_W;
    if (weight && (call->accumulate || !zt_dnn_is_placed(data[ZT_DNN_W])))
        data[ZT_DNN_W] = call->workspace;
    void *dw = data[ZT_DNN_W];
    const bool dnn = c->dnn && zt_dnn_is_placed(data[ZT_DNN_X]) && zt_dnn_is_placed(data[ZT_DNN_Y]);
    if (!(dnn ? run_dnn(call, c, data, err) : run_own(call, c, data, err)))
        return false;
    if (weight)
        return finish_weight(call, c, dw, data[ZT_DNN_Y], err);
    return !bias || (dnn && c->fused) || add_bias(call, c, bias, err);
}

const struct zt_kernel zt_kernel_conv_cuda = { .prepare = prepare, .run = run, .release = release };
