/* CausalConvWithState (opset 27 on): each channel is convolved with its own kernel of k numbers, which ends at the
 * current position. z are the k - 1 numbers of the past (zeros without), then x:
 *
 *     a[t] = bias + sum over j of w[j] z[t + j]        y = a, or a s with s = sigmoid(a) (silu and swish)
 *     present = the last k - 1 numbers of z
 *
 * Backward, with a computed again:
 *
 *     da = dy, or dy s (1 + a (1 - s))                 dbias = sum of da            over samples and positions
 *     dw[j] = sum of da[t] z[t + j]                    dz[t + j] += w[j] da[t]
 *     dz += dpresent at its last k - 1 numbers         dpast and dx are the parts of dz */
#include "ops/linear_attention/causal_conv.h"

#include "ops/linear_attention/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_causal_conv c;
    if (!zt_causal_conv_read(g, node, &c, err) || !zt_infer_first(g, node, err))
        return false;
    const struct zt_shape state = { 3, { c.batch, c.channels, c.kernel - 1 } };
    zt_set_out(g, node, 1, zt_in(g, node, ZT_CAUSAL_X)->dtype, &state);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_causal_conv c;
    if (!zt_causal_conv_read(g, node, &c, err))
        return false;
    const struct zt_shape outs[2] = { zt_in(g, node, ZT_CAUSAL_X)->shape,
                                      { 3, { c.batch, c.channels, c.kernel - 1 } } };
    const struct zt_shape none = { 1, { 0 } };
    for (int i = 0; i < 2; i++) {
        const struct zt_value *dy = zt_in(g, node, ZT_CAUSAL_DY + i);
        if (dy && !zt_shape_equal(&dy->shape, &outs[i]))
            return zt_node_fail(g, node, err, "\"%s\" differs in shape from the output it belongs to", dy->name);
    }
    for (int i = 0; i < ZT_CAUSAL_INS; i++)
        zt_set_out(g, node, i, zt_in(g, node, ZT_CAUSAL_X)->dtype,
                   zt_in(g, node, i) ? &zt_in(g, node, i)->shape : &none);
    return true;
}

/* ---- reference kernels ---- */

/* A channel. z [kernel - 1 + length] and its gradient, a and da [length], w and its gradient [kernel]. */
struct channel {
    const struct zt_call *call;
    struct zt_launch_causal_conv c;
    int64_t at;
    double *z, *dz, *a, *da, *w, *dw;
};

static int64_t doubles_of(const struct zt_launch_causal_conv *c) {
    return 2 * (c->kernel - 1 + c->length) + 2 * c->length + 2 * c->kernel;
}

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_launch_causal_conv c;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    if (!zt_causal_conv_read(p->graph, p->node, &c, err))
        return false;
    if (c.channels > 0)
        p->workspace_bytes = (size_t)doubles_of(&c) * sizeof(double) * (size_t)zt_max_int(p->threads, 1);
    return true;
}

static void load(const struct channel *w, int in, int64_t offset, int64_t count, double *to) {
    if (in < w->call->in_count && w->call->in[in].data)
        zt_load_block(w->call->in[in].dtype, w->call->in[in].data, offset, 1, count, to);
    else
        memset(to, 0, (size_t)count * sizeof *to);
}

/* Nothing where the output is omitted, or belongs to an omitted input and so has no elements. */
static void store(const struct channel *w, int out, int64_t offset, int64_t count, const double *from) {
    const struct zt_view *to = out < w->call->out_count ? &w->call->out[out] : NULL;
    if (to && to->data && zt_shape_count(&to->shape) > 0)
        zt_store_block(to->dtype, to->data, offset, 1, count, from);
}

static struct channel open_channel(const struct zt_call *call, const struct zt_launch_causal_conv *c, int64_t at) {
    struct channel w = { .call = call, .c = *c, .at = at };
    const int64_t padded = c->kernel - 1 + c->length;
    w.w = (double *)call->workspace + zt_parallel_thread() * doubles_of(c);
    w.dw = w.w + c->kernel;
    w.z = w.dw + c->kernel;
    w.dz = w.z + padded;
    w.a = w.dz + padded;
    w.da = w.a + c->length;
    load(&w, ZT_CAUSAL_W, at * c->kernel, c->kernel, w.w);
    return w;
}

/* z and a of sample b. */
static void convolve(struct channel *w, int64_t b) {
    const struct zt_launch_causal_conv *c = &w->c;
    const int64_t row = b * c->channels + w->at;
    double bias = 0;
    load(w, ZT_CAUSAL_PAST, row * (c->kernel - 1), c->kernel - 1, w->z);
    load(w, ZT_CAUSAL_X, row * c->length, c->length, w->z + c->kernel - 1);
    load(w, ZT_CAUSAL_BIAS, w->at, 1, &bias);
    for (int64_t t = 0; t < c->length; t++) {
        w->a[t] = bias;
        for (int64_t j = 0; j < c->kernel; j++)
            w->a[t] += w->w[j] * w->z[t + j];
    }
}

struct work {
    const struct zt_call *call;
    struct zt_launch_causal_conv c;
};

static void forward_channel(void *arg, int64_t at) {
    const struct work *all = arg;
    const struct zt_launch_causal_conv *c = &all->c;
    struct channel w = open_channel(all->call, c, at);
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t row = b * c->channels + at;
        convolve(&w, b);
        for (int64_t t = 0; c->silu && t < c->length; t++)
            w.a[t] /= 1 + exp(-w.a[t]);
        store(&w, 0, row * c->length, c->length, w.a);
        store(&w, 1, row * (c->kernel - 1), c->kernel - 1, w.z + c->length);
    }
}

/* da of sample b in w->da, from a. */
static void give_activation(struct channel *w, int64_t b) {
    load(w, ZT_CAUSAL_DY, (b * w->c.channels + w->at) * w->c.length, w->c.length, w->da);
    for (int64_t t = 0; w->c.silu && t < w->c.length; t++) {
        const double s = 1 / (1 + exp(-w->a[t]));
        w->da[t] *= s * (1 + w->a[t] * (1 - s));
    }
}

static void backward_channel(void *arg, int64_t at) {
    const struct work *all = arg;
    const struct zt_launch_causal_conv *c = &all->c;
    struct channel w = open_channel(all->call, c, at);
    double dbias = 0;
    memset(w.dw, 0, (size_t)c->kernel * sizeof *w.dw);
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t row = b * c->channels + at;
        convolve(&w, b);
        give_activation(&w, b);
        memset(w.dz, 0, (size_t)c->length * sizeof *w.dz);
        load(&w, ZT_CAUSAL_DPRESENT, row * (c->kernel - 1), c->kernel - 1, w.dz + c->length);
        for (int64_t t = 0; t < c->length; t++) {
            dbias += w.da[t];
            for (int64_t j = 0; j < c->kernel; j++) {
                w.dw[j] += w.da[t] * w.z[t + j];
                w.dz[t + j] += w.da[t] * w.w[j];
            }
        }
        store(&w, ZT_CAUSAL_PAST, row * (c->kernel - 1), c->kernel - 1, w.dz);
        store(&w, ZT_CAUSAL_X, row * c->length, c->length, w.dz + c->kernel - 1);
    }
    store(&w, ZT_CAUSAL_W, at * c->kernel, c->kernel, w.dw);
    store(&w, ZT_CAUSAL_BIAS, at, 1, &dbias);
}

static bool run(const struct zt_call *call, void (*channel)(void *arg, int64_t at), struct zt_err *err) {
    struct work w = { .call = call };
    if (!zt_causal_conv_read(call->graph, zt_call_node(call), &w.c, err))
        return false;
    const double work = 8.0 * (double)(w.c.batch * w.c.channels) * (double)(w.c.length * w.c.kernel);
    zt_parallel_for(zt_threads_worth(call->threads, work), w.c.channels, channel, &w);
    return true;
}

static bool causal_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, forward_channel, err);
}

static bool causal_grad_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, backward_channel, err);
}

/* ---- gradient rule and rows ---- */

static bool causal_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[ZT_CAUSAL_GRAD_INS], out[ZT_CAUSAL_INS], count = 0;
    for (int i = 0; i < ZT_CAUSAL_INS; i++)
        in[i] = i < n->in_count ? n->in[i] : -1;
    for (int i = 0; i < 2; i++)
        in[ZT_CAUSAL_DY + i] = i < n->out_count && n->out[i] >= 0 ? zt_grad_out(b, node, i) : -1;
    for (int i = 0; i < ZT_CAUSAL_INS; i++)
        if (zt_grad_wanted(b, node, i))
            count = i + 1;
    zt_emit_node(b, &(struct zt_emission){ "CausalConvWithStateGrad", "ztrain", in, ZT_CAUSAL_GRAD_INS, n }, out,
                 count);
    for (int i = 0; i < count; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, out[i]);
    return true;
}

static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_causal_conv_read(g, node, to, err);
}

static double forward_flops(const struct zt_graph *g, int node) {
    const struct zt_shape *w = &zt_in(g, node, ZT_CAUSAL_W)->shape;
    return 2.0 * (double)zt_shape_count(&zt_in(g, node, ZT_CAUSAL_X)->shape) * (double)w->dim[2];
}

static double grad_flops(const struct zt_graph *g, int node) {
    return 3 * forward_flops(g, node);
}

static const struct zt_attr_spec attrs[] = { { "activation", ZT_ATTR_STRING }, { 0 } };

const struct zt_op zt_op_causal_conv_with_state = {
    .name = "CausalConvWithState",
    .domain = "",
    .since = 27,
    .min_in = 2,
    .max_in = ZT_CAUSAL_INS,
    .min_out = 1,
    .max_out = 2,
    .flags = ZT_OP_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .same_type = 1 << ZT_CAUSAL_W | 1 << ZT_CAUSAL_BIAS | 1 << ZT_CAUSAL_PAST,
    .attrs = attrs,
    .infer = infer,
    .grad = causal_grad,
    .flops = forward_flops,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = causal_run },
                [ZT_CPU] = ZT_ON_CPU(zt_causal_conv_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(causal_conv, zt_cuda_floats, describe) },
};
/* (the inputs of CausalConvWithState, dy, dpresent) -> the gradients of these inputs */
const struct zt_op zt_op_causal_conv_with_state_grad = {
    .name = "CausalConvWithStateGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = ZT_CAUSAL_GRAD_INS,
    .min_out = 1,
    .max_out = ZT_CAUSAL_INS,
    .flags = ZT_OP_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .same_type = 0x3e,
    .attrs = attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .body = zt_causal_conv_grad_function_body,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = causal_grad_run },
                [ZT_CPU] = ZT_ON_CPU(zt_causal_conv_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(causal_conv_grad, zt_cuda_floats, describe) },
};
