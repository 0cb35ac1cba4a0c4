/* Convolutions on CUDA: cuDNN's graphs (conv_dnn.h), with a bias in the same graph where cuDNN has an engine for that,
 * else in a kernel behind it; our own kernels (conv.cu) where cuDNN has no engine for the convolution. ReLU is in the
 * kernel behind it, with the bias: of cuDNN's engines with ReLU the only one that passes NaN is the slowest there is
 * (docs/performance-gpu.md).
 *
 * Tensor cores need channels last. A convolution that uses them reads and writes it: in half dtypes, and in fp32
 * where that may be rounded to TF32. Weights are then KRSC, derived values that are computed again after every step;
 * weight gradients are computed in KRSC and written in plain order. A convolution without such an engine stays plain,
 * as does exact fp32. Our own kernels accept either layout.
 *
 * cuDNN needs addresses that are multiples of 16, and a parameter starts where the tensors before it in the flat
 * block end. Unaligned weights and biases are copied to the workspace. A weight gradient is computed there too where
 * it is accumulated, has another order or another dtype. Activations are aligned; our own kernels run the exceptions.
 */
#include "ops/conv/conv_dnn.h"
#include "ops/cuda/describe.h"
#include "ops/cuda/dnn_places_cuda.h"
#include "ops/cuda/launch_broadcast.h"
#include "ops/conv/launch_weight.h"
#include "ops/cuda/layout_cuda.h"

#include <stdlib.h>
#include <string.h>

struct conv {
    const struct zt_conv_directions *directions;
    const struct zt_dnn *dnn; /* NULL: our own kernels */
    bool bias, relu;          /* follow the convolution */
    bool fused;               /* the bias is in the graph */
    bool last;                /* channels last, of all three tensors */
    bool transposes;          /* dw is transposed to plain order */
    struct zt_launch_conv own;
    struct planes {
        int64_t samples, channels, plane; /* channels last: a sample a place, of planes of 1 */
    } x, y;
    struct zt_launch_reduce sums;            /* of y's channels */
    struct zt_launch_strided_copy transpose; /* dw to plain order */
    /* workspace [ weight | bias, or partial sums | cuDNN's ] */
    size_t weight_bytes, bias_bytes, bias_at, scratch_at;
};

/* ---- preparing ---- */

/* The plan of cuDNN, NULL where it has no engine; notes the path. */
static const struct zt_dnn *plan(struct zt_prepare *p, const struct zt_conv *conv, enum zt_conv_direction direction,
                                 const struct zt_conv_dnn_form *form) {
    struct zt_dnn_graph graph;
    p->path = zt_path_own(zt_conv_dnn_refusal(conv, direction, form));
    if (p->path.note)
        return NULL;
    zt_conv_dnn(conv, direction, form, &graph);
    graph.tensor_cores = p->device->tf32;
    return zt_path_dnn(p, &graph);
}

static bool comes_last(const struct zt_prepare *p) {
    bool last = false;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        last |= zt_layout_is_last(p->in_layout[i]);
    return last;
}

/* Notes the forms that cuDNN was asked for first and does not have, and why. */
static void note(struct zt_prepare *p, const struct conv *c, bool wants_last, bool wants_fused, const char *why) {
    const bool plain = wants_last && !c->last, apart = wants_fused && !c->fused;
    if (c->dnn && (plain || apart))
        p->path.note =
            zt_arena_printf(p->graph->arena, "%s%s%s: %s", plain ? "planes, not channels last" : "",
                            plain && apart ? "; " : "", apart ? "its bias behind it in a kernel of its own" : "", why);
}

/* Chooses engine and order: channels last where tensor cores compute, and the bias in the graph if possible. */
static void choose(struct zt_prepare *p, const struct zt_conv *conv, struct conv *c) {
    const enum zt_dtype dtype = zt_in(p->graph, p->node, 0)->dtype;
    const bool tensor_cores = zt_dtype_is_half(dtype) || p->device->tf32;
    const bool follows = c->directions->direction == ZT_CONV_TO_Y && c->bias && !c->relu;
    const char *why = NULL;
    for (int last = tensor_cores; last >= 0 && !c->dnn; last--)
        for (int fused = follows; fused >= 0 && !c->dnn; fused--) {
            const struct zt_conv_dnn_form form = { dtype, last, fused };
            c->dnn = plan(p, conv, c->directions->direction, &form);
            c->fused = c->dnn && fused;
            c->last = last;
            why = why ? why : p->path.note;
        }
    note(p, c, tensor_cores, follows, why);
    if (!c->dnn)
        c->last = comes_last(p);
    c->own = zt_conv_launch(conv, dtype, c->last);
}

/* Layouts of inputs and outputs in that order; dw, the bias and its gradient are plain. */
static void lay(struct zt_prepare *p, struct conv *c) {
    struct zt_graph *g = p->graph;
    const struct zt_node *n = g->nodes[p->node];
    for (int i = 0; i < n->out_count; i++)
        p->out_layout[i] = NULL;
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = c->last && i < 2 ? zt_layout_last(g->arena, p->in_layout[i], zt_in(g, p->node, i)) : NULL;
    const struct zt_layout *to = c->last ? zt_layout_last(g->arena, NULL, zt_out(g, p->node, 0)) : NULL;
    if (c->directions->direction == ZT_CONV_TO_W) {
        c->transposes = to != NULL;
        c->transpose = zt_transposed_copy_cuda(&zt_out(g, p->node, 0)->shape, to, NULL);
    } else {
        p->out_layout[0] = to;
    }
}

static struct planes planes(int64_t samples, int64_t channels, int64_t places, bool last) {
    return last ? (struct planes){ samples * places, channels, 1 } : (struct planes){ samples, channels, places };
}

/* The gradient of the bias from y's. */
static struct zt_launch_reduce channel_sums(const struct planes *y) {
    struct zt_launch_reduce r = { .fold = ZT_FOLD_SUM,
                                  .result_axes = 1,
                                  .result_dim = { y->channels },
                                  .result_step = { y->plane },
                                  .results = y->channels,
                                  .reduced_axes = y->plane > 1 ? 2 : 1,
                                  .reduced_dim = { y->samples, y->plane },
                                  .reduced_step = { y->channels * y->plane, 1 },
                                  .reduced = y->samples * y->plane };
    r.parts = zt_launch_reduce_parts(&r);
    return r;
}

static void place(struct zt_prepare *p, struct conv *c, const struct zt_conv *conv) {
    const size_t bytes = zt_dtype_bytes(c->own.dtype);
    const bool weight = c->directions->direction == ZT_CONV_TO_W;
    c->weight_bytes = (size_t)(conv->m * (conv->c / conv->groups) * conv->window.kernel_elems) * bytes;
    c->bias_bytes = c->fused ? (size_t)conv->m * bytes : 0;
    c->bias_at = zt_room_cuda(c->weight_bytes);
    const size_t sums = weight && c->sums.parts > 1 ? (size_t)(c->sums.results * c->sums.parts) * sizeof(float) : 0;
    c->scratch_at = c->bias_at + zt_room_cuda(c->bias_bytes + sums); /* never both */
    p->workspace_bytes = c->scratch_at + (c->dnn ? zt_dnn_workspace_bytes(c->dnn) : 0);
}

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_conv_directions *directions = zt_conv_directions(g->nodes[p->node]);
    struct zt_conv conv;
    if (!zt_dnn_ready(p->device, err) || !directions->read(g, p->node, &conv, err))
        return false;
    struct conv *c = zt_calloc(1, sizeof *c);
    c->directions = directions;
    c->bias = directions->direction != ZT_CONV_TO_W && zt_in(g, p->node, 2);
    c->relu = strcmp(g->nodes[p->node]->op_type, "ConvRelu") == 0;
    choose(p, &conv, c);
    lay(p, c);
    c->y = planes(conv.n, conv.m, conv.window.out_elems, c->last);
    c->x = planes(conv.n, conv.c, conv.window.in_elems, c->last);
    if (directions->direction == ZT_CONV_TO_W && zt_out(g, p->node, 1))
        c->sums = channel_sums(&c->y);
    place(p, c, &conv);
    p->state = c;
    p->can_accumulate = directions->direction == ZT_CONV_TO_W;
    return true;
}

/* ---- running ---- */

static bool run_dnn(const struct zt_call *call, const struct conv *c, void **data, struct zt_err *err) {
    char *room_at = call->workspace;
    if (c->directions->direction != ZT_CONV_TO_W &&
        !zt_dnn_bring(call->device, &data[ZT_DNN_W], room_at, c->weight_bytes, err))
        return false;
    if (c->bias_bytes && !zt_dnn_bring(call->device, &data[ZT_DNN_BIAS], room_at + c->bias_at, c->bias_bytes, err))
        return false;
    return zt_dnn_run(c->dnn, data, room_at + c->scratch_at, call->node->name, err);
}

static bool run_own(const struct zt_call *call, const struct conv *c, void *const *data, struct zt_err *err) {
    struct CUstream_st *stream = zt_stream_of(call);
    void *x = data[ZT_DNN_X], *w = data[ZT_DNN_W], *y = data[ZT_DNN_Y];
    int code = c->directions->direction == ZT_CONV_TO_Y   ? zt_launch_conv_to_y(stream, &c->own, x, w, y)
               : c->directions->direction == ZT_CONV_TO_X ? zt_launch_conv_to_x(stream, &c->own, x, w, y)
                                                          : zt_launch_conv_to_w(stream, &c->own, x, w, y);
    return zt_launched(call, code, err);
}

/* Bias and ReLU behind the convolution, in place. */
static bool follow(const struct zt_call *call, const struct conv *c, const void *bias, struct zt_err *err) {
    const struct planes *y = c->directions->direction == ZT_CONV_TO_Y ? &c->y : &c->x;
    const struct zt_launch_bias follow = { c->own.dtype, y->samples, y->channels, y->plane, c->relu };
    return (!c->bias && !c->relu) ||
           zt_launched(call, zt_launch_bias(zt_stream_of(call), &follow, c->bias ? bias : NULL, call->out[0].data),
                       err);
}

/* dw from the workspace to its place, and db, which is always written anew. */
static bool finish_weight(const struct zt_call *call, const struct conv *c, const void *dw, const void *dy,
                          struct zt_err *err) {
    const struct zt_view *to = &call->out[0], *db = call->out_count > 1 ? &call->out[1] : NULL;
    struct zt_launch_weight_end end = { .dtype = c->own.dtype,
                                        .dw_dtype = to->dtype,
                                        .db_dtype = db ? db->dtype : to->dtype,
                                        .transpose = c->transpose,
                                        .dw_from = dw == to->data ? NULL : dw,
                                        .dw = to->data,
                                        .accumulate = call->accumulate,
                                        .sums = c->sums,
                                        .dy = dy,
                                        .db = db ? db->data : NULL,
                                        .partial = (void *)((char *)call->workspace + c->bias_at) };
    end.sums.arrived = zt_arrived_of(call);
    return zt_launched(call, zt_launch_weight_end(zt_stream_of(call), &end), err);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct conv *c = call->state;
    void *data[ZT_DNN_TENSORS] = { 0 };
    for (int i = ZT_DNN_X; i <= ZT_DNN_Y; i++)
        data[i] = c->directions->of[i] == ZT_CONV_OUT ? call->out[0].data : call->in[c->directions->of[i]].data;
    void *bias = data[ZT_DNN_BIAS] = call->in_count > 2 ? call->in[2].data : NULL;
    const bool weight = c->directions->direction == ZT_CONV_TO_W;
    const bool cast = weight && call->out[0].dtype != c->own.dtype;
    if (weight && (call->accumulate || c->transposes || cast || !zt_dnn_is_placed(data[ZT_DNN_W])))
        data[ZT_DNN_W] = call->workspace;
    void *dw = data[ZT_DNN_W];
    const bool placed = zt_dnn_is_placed(data[ZT_DNN_X]) && zt_dnn_is_placed(data[ZT_DNN_Y]);
    const bool dnn = c->dnn && placed;
    if (c->dnn && !placed)
        zt_path_misplaced(call);
    if (!(dnn ? run_dnn(call, c, data, err) : run_own(call, c, data, err)))
        return false;
    if (weight)
        return finish_weight(call, c, dw, data[ZT_DNN_Y], err);
    return (dnn && c->fused) || follow(call, c, bias, err);
}

const struct zt_kernel zt_kernel_conv_cuda = { .prepare = prepare, .layouts = true, .run = run, .release = free };
