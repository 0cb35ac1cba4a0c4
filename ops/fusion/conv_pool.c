/* Convolution, ReLU and max pool in one node, and its gradient, so that the big tensors between them are never written:
 *
 *     ztrain.ConvReluPool(x, w[, b]) -> p, position              p = max(max over the window of Conv(x, w, b), 0)
 *     ztrain.ConvReluPoolGrad(x, w, dp, position, p) -> dw, db, dx
 *         dy = dp where p > 0, at `position` in each window, 0 elsewhere; then the convolution's gradients of dy
 *
 * ReLU and maximum are exchanged, as both are monotonic. Where the maximum is not positive the position may differ from
 * that without fusion, but the gradient is 0 there. Any of the gradient's outputs may be omitted; dw and db have the
 * type `to`, float, or without it w's. */
#include "ops/fusion/conv_pool.h"
#include "graph/passes/fusion/fuse.h"
#include "ops/fusion/kernels.h"
#include "ops/fusion/sparse_conv_cpu.h"
#include "ops/pool/pool.h"
#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

static const struct zt_attr_spec attrs[] = {
    { "auto_pad", ZT_ATTR_STRING },
    { "dilations", ZT_ATTR_INTS },
    { "group", ZT_ATTR_INT },
    { "kernel_shape", ZT_ATTR_INTS },
    { "pads", ZT_ATTR_INTS },
    { "strides", ZT_ATTR_INTS },
    { "to", ZT_ATTR_INT },
    { "pool_kernel", ZT_ATTR_INTS, true },
    { "pool_out", ZT_ATTR_INTS, true },
    { "pool_pads", ZT_ATTR_INTS, true },
    { "pool_strides", ZT_ATTR_INTS, true },
    { 0 },
};

/* ---- geometry ---- */

static bool forward_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv_pool c;
    if (!zt_conv_pool_read(g, node, &c, err))
        return false;
    struct zt_shape p = { 4, { c.conv.n, c.conv.m, c.pool.out[0], c.pool.out[1] } };
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &p);
    zt_set_out(g, node, 1, ZT_UINT8, &p);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv_pool c;
    if (!zt_conv_pool_read(g, node, &c, err))
        return false;
    const enum zt_dtype dtype = (enum zt_dtype)zt_attr_int(g->nodes[node], "to", zt_in(g, node, 1)->dtype);
    zt_set_out(g, node, 0, dtype, &zt_in(g, node, 1)->shape);
    zt_set_out(g, node, 1, dtype, &(struct zt_shape){ 1, { c.conv.m } });
    zt_set_out(g, node, 2, zt_in(g, node, 0)->dtype, &zt_in(g, node, 0)->shape);
    return true;
}

static double conv_flops(const struct zt_graph *g, int node) {
    struct zt_conv_pool c;
    struct zt_err err = { 0 };
    if (!zt_conv_pool_read(g, node, &c, &err))
        return 0;
    return 2.0 * (double)(c.conv.n * c.conv.m) * (double)c.conv.window.out_elems *
           (double)(c.conv.c / c.conv.groups * c.conv.window.kernel_elems);
}

static double grad_flops(const struct zt_graph *g, int node) {
    return conv_flops(g, node) * ((zt_out(g, node, 0) ? 1 : 0) + (zt_out(g, node, 2) ? 1 : 0));
}

/* ---- reference kernels ---- */

/* for (k, element): the positions k of the window at result (oy, ox) of a plane that lie inside it, and the elements of
 * the convolution's result there. A macro, as it is a loop head. */
#define EACH_POSITION(w, plane, oy, ox, k, element)                                                                    \
    for (int64_t k = 0, element; k < (w)->kernel_elems; k++)                                                           \
        if ((element = inside(w, plane, oy, ox, k)) >= 0)

static int64_t inside(const struct zt_window *w, int64_t plane, int64_t oy, int64_t ox, int64_t k) {
    int64_t y = oy * w->stride[0] - w->pad[0] + k / w->kernel[1], x = ox * w->stride[1] - w->pad[1] + k % w->kernel[1];
    if (y < 0 || y >= w->in[0] || x < 0 || x >= w->in[1])
        return -1;
    return plane * w->in_elems + y * w->in[1] + x;
}

static void pool_plane(const struct zt_call *call, const struct zt_window *w, const void *conv, int64_t plane) {
    enum zt_dtype dtype = call->out[0].dtype;
    for (int64_t o = 0; o < w->out_elems; o++) {
        double best = -INFINITY;
        int64_t at = -1;
        EACH_POSITION(w, plane, o / w->out[1], o % w->out[1], k, element) {
            double v = zt_load_double(dtype, conv, element);
            if (at < 0 || v > best || (isnan(v) && !isnan(best))) {
                best = v;
                at = k;
            }
        }
        zt_store_double(dtype, call->out[0].data, plane * w->out_elems + o, best <= 0 ? 0 : best);
        zt_store_int(ZT_UINT8, call->out[1].data, plane * w->out_elems + o, at < 0 ? 0 : at);
    }
}

static void *new_result(struct zt_arena *arena, const struct zt_conv *c, enum zt_dtype dtype) {
    return zt_arena_alloc(arena, (size_t)(c->n * c->m * c->window.out_elems) * zt_dtype_bytes(dtype));
}

static bool forward_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_pool c;
    const struct zt_view *in = call->in;
    if (!zt_conv_pool_read(call->graph, zt_call_node(call), &c, err))
        return false;
    struct zt_arena *arena = zt_arena_create();
    struct zt_conv_job job = { .conv = c.conv,
                               .dtype = in[0].dtype,
                               .from = in[0].data,
                               .weight = in[1].data,
                               .bias = call->in_count > 2 ? in[2].data : NULL,
                               .threads = call->threads };
    job.to = new_result(arena, &c.conv, job.dtype);
    zt_conv_forward(&job);
    for (int64_t plane = 0; plane < c.conv.n * c.conv.m; plane++)
        pool_plane(call, &c.pool, job.to, plane);
    zt_arena_destroy(arena);
    return true;
}

/* dy of a plane from dp, position and p. */
static void unpool_plane(const struct zt_call *call, const struct zt_window *w, void *dy, int64_t plane) {
    const struct zt_view *dp = &call->in[2], *position = &call->in[3], *p = &call->in[4];
    for (int64_t o = 0; o < w->out_elems; o++) {
        int64_t from = plane * w->out_elems + o;
        int64_t to = inside(w, plane, o / w->out[1], o % w->out[1], zt_load_int(ZT_UINT8, position->data, from));
        if (to < 0 || zt_load_double(p->dtype, p->data, from) <= 0)
            continue;
        zt_store_double(dp->dtype, dy, to,
                        zt_load_double(dp->dtype, dy, to) + zt_load_double(dp->dtype, dp->data, from));
    }
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_pool c;
    const struct zt_view *in = call->in;
    void *out[3]; /* dw, db, dx */
    if (!zt_conv_pool_read(call->graph, zt_call_node(call), &c, err))
        return false;
    for (int i = 0; i < 3; i++)
        out[i] = i < call->out_count ? call->out[i].data : NULL;
    struct zt_arena *arena = zt_arena_create();
    void *dy = new_result(arena, &c.conv, in[2].dtype);
    for (int64_t plane = 0; plane < c.conv.n * c.conv.m; plane++)
        unpool_plane(call, &c.pool, dy, plane);
    struct zt_conv_job job = {
        .conv = c.conv, .dtype = in[0].dtype, .from = dy, .weight = in[1].data, .to = out[2], .threads = call->threads
    };
    if (out[2])
        zt_conv_backward(&job);
    job.from = in[0].data;
    job.dy = dy;
    job.to_dtype = (enum zt_dtype)zt_attr_int(call->node, "to", job.dtype);
    job.to =
        out[0] ? out[0] : zt_arena_alloc(arena, (size_t)zt_shape_count(&in[1].shape) * zt_dtype_bytes(job.to_dtype));
    job.db = out[1];
    if (out[0] || out[1])
        zt_conv_weight(&job);
    zt_arena_destroy(arena);
    return true;
}

const struct zt_op zt_op_conv_relu_pool = {
    .name = "ConvReluPool",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 3,
    .min_out = 2,
    .max_out = 2,
    .flags = ZT_OP_WINDOWS,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 2,
    .attrs = attrs,
    .infer = forward_infer,
    .flops = conv_flops,
    .kernel = { [ZT_REF] = { .run = forward_ref },
                [ZT_CPU] = ZT_IF_DNNL_WITH(zt_conv_pool_cpu, .share = zt_conv_pool_cpu_share) },
};
const struct zt_op zt_op_conv_relu_pool_grad = {
    .name = "ConvReluPoolGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 5,
    .max_in = 5,
    .min_out = 1,
    .max_out = 3,
    .flags = ZT_OP_WINDOWS,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_BIT(ZT_UINT8), ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 2 | 1 << 4,
    .attrs = attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .kernel = { [ZT_REF] = { .run = grad_ref },
                [ZT_CPU] = ZT_IF_DNNL_WITH(zt_conv_pool_grad_cpu, .share = zt_conv_pool_grad_cpu_share) },
};

/* ---- patterns ---- */

/* The attributes of a fused node: those of the convolution and the pool's window. */
static void set_attrs(struct zt_graph *g, struct zt_node *like, const struct zt_window *w) {
    static const char *const names[4] = { "pool_kernel", "pool_strides", "pool_pads", "pool_out" };
    const int64_t *lists[4] = { w->kernel, w->stride, w->pad, w->out };
    struct zt_attr *to = ZT_NEW_N(g->arena, struct zt_attr, like->attr_count + 4);
    if (like->attr_count)
        memcpy(to, like->attr, sizeof *to * (size_t)like->attr_count);
    for (int i = 0; i < 4; i++)
        to[like->attr_count++] = (struct zt_attr){ .name = names[i],
                                                   .type = ZT_ATTR_INTS,
                                                   .count = 2,
                                                   .ints = zt_arena_copy(g->arena, lists[i], 2 * sizeof **lists) };
    like->attr = to;
}

/* Whether the convolution is of one group, of float, or of bfloat16 and taken by the CPU. oneDNN 2.6 has but its
 * reference kernel for groups whose channels are no whole vectors, where results lie in vectors of channels. */
static bool fits(const struct zt_graph *g, int conv) {
    const enum zt_dtype dtype = zt_in(g, conv, 0)->dtype;
    return zt_attr_int(g->nodes[conv], "group", 1) == 1 &&
           (dtype == ZT_FLOAT || (dtype == ZT_BFLOAT16 && zt_op_takes(g, conv, ZT_CPU)));
}

/* MaxPoolTrain of a ConvRelu whose result nothing else reads. */
static bool fuse_forward(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_pool pool;
    struct zt_err ignored = { 0 };
    if (strcmp(g->nodes[node]->op_type, "MaxPoolTrain") != 0)
        return false;
    int from = zt_fuse_producer(g, node, 0, "ConvRelu", true);
    if (from < 0 || !fits(g, from) || !zt_pool_read(g, node, &pool, &ignored))
        return false;
    const struct zt_window *w = &pool.window;
    if (w->axes != 2 || w->kernel_elems > 256 || w->dilation[0] != 1 || w->dilation[1] != 1)
        return false;
    struct zt_node like = *g->nodes[from];
    set_attrs(g, &like, w);
    g->nodes[from]->dead = true;
    zt_fuse_replace(g, table, node, &(struct zt_fused_node){ "ConvReluPool", like.in, like.in_count, NULL, 0, &like },
                    err);
    return true;
}

/* The reader of `value` beside `node`: -1 where there is none, -2 where there is another than a ConvGradInput. */
static int other_reader(const struct zt_graph *g, int value, int node) {
    int found = -1;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; n != node && !g->nodes[n]->dead && i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] == value)
                found = found == -1 && strcmp(g->nodes[n]->op_type, "ConvGradInput") == 0 && i == 1 ? n : -2;
    return found;
}

/* ConvGradWeight, and ConvGradInput if there is one, of a MaxPoolReluGrad. */
static bool fuse_backward(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    if (strcmp(g->nodes[node]->op_type, "ConvGradWeight") != 0)
        return false;
    int from = zt_fuse_producer(g, node, 1, "MaxPoolReluGrad", false);
    if (from < 0)
        return false;
    const struct zt_node weight = *g->nodes[node], unpool = *g->nodes[from];
    int forward = g->values[unpool.in[1]]->producer, input = other_reader(g, weight.in[1], node);
    if (input == -2 || forward < 0 || strcmp(g->nodes[forward]->op_type, "ConvReluPool") != 0 ||
        g->nodes[forward]->in[0] != weight.in[0] || (input >= 0 && g->nodes[input]->in[0] != g->nodes[forward]->in[1]))
        return false;
    const int in[5] = { weight.in[0], g->nodes[forward]->in[1], unpool.in[0], unpool.in[1], unpool.in[2] };
    const int out[3] = { weight.out[0], weight.out_count > 1 ? weight.out[1] : -1,
                         input >= 0 ? g->nodes[input]->out[0] : -1 };
    struct zt_conv_pool c;
    struct zt_err ignored = { 0 };
    struct zt_node like = zt_fuse_attrs_without(g, g->nodes[forward], "to");
    if (zt_in(g, forward, 0)->dtype != ZT_FLOAT) { /* in bfloat16 there is a kernel of single places alone */
        if (!zt_conv_pool_read(g, forward, &c, &ignored) || zt_sparse_conv_share(&c) == 1 ||
            zt_out(g, node, 0)->dtype != ZT_FLOAT)
            return false;
        like.attr[like.attr_count++] = (struct zt_attr){ .name = "to", .type = ZT_ATTR_INT, .i = ZT_FLOAT };
    }
    g->nodes[from]->dead = true;
    if (input >= 0)
        g->nodes[input]->dead = true;
    zt_fuse_replace(g, table, node, &(struct zt_fused_node){ "ConvReluPoolGrad", in, 5, out, 3, &like }, err);
    return true;
}

const struct zt_pattern zt_pattern_conv_relu_pool = { "conv_relu_pool", 1 << ZT_CPU, fuse_forward };
const struct zt_pattern zt_pattern_conv_relu_pool_grad = { "conv_relu_pool_grad", 1 << ZT_CPU, fuse_backward };
