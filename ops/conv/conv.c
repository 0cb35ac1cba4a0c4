/* ONNX Conv, opset 1 on, any number of spatial axes and groups
 *
 *     y[n,m,o]  = b[m] + sum over c, k of w[m,c,k] x[n,c, o stride - pad + k dilation]
 *     dx[n,c,i] = sum over m, k of w[m,c,k] dy[n,m,(i + pad - k dilation) / stride]   ztrain.ConvGradInput(w, dy)
 *     dw[m,c,k] = sum over n, o of dy[n,m,o] x[n,c, o stride - pad + k dilation]      ztrain.ConvGradWeight(x, dy)
 *     db[m]     = sum over n, o of dy[n,m,o]                                          its second output
 *
 * ConvTranspose is the second line with its x as dy: its gradients are the first and the third
 * (ztrain.ConvTransposeGradInput and ConvTransposeGradWeight). Gradient nodes keep the attributes of the forward node,
 * so that all kernels read their geometry alike; the shape of the input that a gradient node lacks is in input_shape or
 * kernel_shape. */
#include "ops/conv/conv.h"

#include "graph/passes/grad.h"
#include "graph/passes/low_rank/low_rank.h"
#include "ops/conv/kernels.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* Gradient rows have the attributes of both forward rows and the two shapes. */
#define CONV_ATTRS                                                                                                     \
    { "auto_pad", ZT_ATTR_STRING }, { "dilations", ZT_ATTR_INTS }, { "group", ZT_ATTR_INT },                           \
        { "kernel_shape", ZT_ATTR_INTS }, { "pads", ZT_ATTR_INTS }, {                                                  \
        "strides", ZT_ATTR_INTS                                                                                        \
    }
#define TRANSPOSE_ATTRS                                                                                                \
    { "output_padding", ZT_ATTR_INTS }, {                                                                              \
        "output_shape", ZT_ATTR_INTS                                                                                   \
    }

/* cuDNN counts some sizes in 32 bits; the reference kernels run larger convolutions. */
static bool fits_cuda(const struct zt_conv *c) {
    const struct zt_window *w = &c->window;
    const int64_t sizes[] = { c->n, c->c, c->m, w->in_elems, w->out_elems, w->kernel_elems };
    bool fit = w->axes <= 3;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fit &= zt_cuda_size(sizes[i]);
    for (int a = 0; fit && a < w->axes; a++)
        fit = w->pad[a] >= 0;
    return fit;
}

bool zt_conv_takes_cuda(const struct zt_graph *g, int node) {
    const struct zt_conv_directions *d = zt_conv_directions(g->nodes[node]);
    struct zt_conv c;
    struct zt_err err = { 0 };
    return d && (d->direction == ZT_CONV_TO_W ? zt_cuda_any_floats(g, node) : zt_cuda_floats(g, node)) &&
           d->read(g, node, &c, &err) && fits_cuda(&c);
}

static const struct zt_attr_spec conv_attrs[] = { CONV_ATTRS, { 0 } };
static const struct zt_attr_spec transpose_attrs[] = { CONV_ATTRS, TRANSPOSE_ATTRS, { 0 } };
static const struct zt_attr_spec grad_attrs[] = { CONV_ATTRS, TRANSPOSE_ATTRS, { "input_shape", ZT_ATTR_INTS }, { 0 } };
/* to: the type of the results, 0 is that of the inputs */
static const struct zt_attr_spec grad_weight_attrs[] = { CONV_ATTRS, TRANSPOSE_ATTRS, { "to", ZT_ATTR_INT }, { 0 } };

/* ---- shape rules ---- */

static void set_plane(struct zt_graph *g, int node, int64_t n, int64_t channels, const int64_t *plane, int axes) {
    struct zt_shape out = { axes + 2, { n, channels } };
    for (int a = 0; a < axes; a++)
        out.dim[a + 2] = plane[a];
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &out);
}

static bool is_zeros(const struct zt_value *v) {
    const int64_t count = v->data ? zt_shape_count(&v->shape) : 0;
    for (int64_t i = 0; i < count; i++)
        if (zt_load_double(v->dtype, v->data, i) != 0)
            return false;
    return count > 0;
}

/* PyTorch's dynamo exporter (2.15) gives a conv3d without bias zeros of shape [channels, 2]: such a bias is dropped. */
static bool check_bias(struct zt_graph *g, int node, int64_t channels, struct zt_err *err) {
    const struct zt_value *b = zt_in(g, node, 2);
    char text[ZT_SHAPE_TEXT];
    if (!b || (b->shape.rank == 1 && b->shape.dim[0] == channels))
        return true;
    if (b->shape.rank == 2 && b->shape.dim[0] == channels && is_zeros(b)) {
        g->nodes[node]->in[2] = -1;
        return true;
    }
    return zt_node_fail(g, node, err, "bias \"%s\" has shape %s, wants [%lld]", b->name, zt_shape_text(&b->shape, text),
                        (long long)channels);
}

static bool conv_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_read(g, node, &c, err) || !check_bias(g, node, c.m, err))
        return false;
    set_plane(g, node, c.n, c.m, c.window.out, c.window.axes);
    return true;
}

static bool transpose_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_transpose_read(g, node, &c, err) || !check_bias(g, node, c.c, err))
        return false;
    set_plane(g, node, c.n, c.c, c.window.in, c.window.axes);
    return true;
}

static bool grad_input_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_grad_input_read(g, node, &c, err))
        return false;
    set_plane(g, node, c.n, c.c, c.window.in, c.window.axes);
    return true;
}

static bool transpose_grad_input_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_transpose_grad_input_read(g, node, &c, err))
        return false;
    set_plane(g, node, c.n, c.m, c.window.out, c.window.axes);
    return true;
}

/* Sets the type of a weight gradient that `to` names. */
static bool set_type(struct zt_graph *g, int node, struct zt_err *err) {
    const int64_t to = zt_attr_int(g->nodes[node], "to", 0);
    if (to == 0)
        return true;
    if (to != ZT_FLOAT)
        return zt_node_fail(g, node, err, "\"to\" is %lld, wants 1 (float) or none", (long long)to);
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        if (zt_out(g, node, i))
            zt_out(g, node, i)->dtype = ZT_FLOAT;
    return true;
}

static bool grad_weight_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_grad_weight_read(g, node, &c, err))
        return false;
    set_plane(g, node, c.m, c.c / c.groups, c.window.kernel, c.window.axes);
    zt_set_out(g, node, 1, zt_in(g, node, 0)->dtype, &(struct zt_shape){ 1, { c.m } });
    return set_type(g, node, err);
}

static bool transpose_grad_weight_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_transpose_grad_weight_read(g, node, &c, err))
        return false;
    set_plane(g, node, c.m, c.c / c.groups, c.window.kernel, c.window.axes);
    return set_type(g, node, err);
}

/* Two a multiplication: every result place meets every weight of its group, padding included. */
static double flops_of(const struct zt_conv *c) {
    return 2.0 * (double)(c->n * c->m) * (double)c->window.out_elems * (double)(c->c / c->groups) *
           (double)c->window.kernel_elems;
}

/* A macro, as it defines a function. */
#define FLOPS(name, read)                                                                                              \
    static double name(const struct zt_graph *g, int node) {                                                           \
        struct zt_conv c;                                                                                              \
        struct zt_err err = { 0 };                                                                                     \
        return read(g, node, &c, &err) ? flops_of(&c) : 0;                                                             \
    }
FLOPS(conv_flops, zt_conv_read)
FLOPS(grad_input_flops, zt_conv_grad_input_read)
FLOPS(grad_weight_flops, zt_conv_grad_weight_read)
FLOPS(transpose_flops, zt_conv_transpose_read)
FLOPS(transpose_grad_input_flops, zt_conv_transpose_grad_input_read)
FLOPS(transpose_grad_weight_flops, zt_conv_transpose_grad_weight_read)

/* ---- reference kernels ---- */

static struct zt_conv_job job_of(const struct zt_call *call, int from, int weight) {
    return (struct zt_conv_job){ .dtype = call->in[0].dtype,
                                 .from = call->in[from].data,
                                 .weight = call->in[weight].data,
                                 .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                 .to = call->out[0].data,
                                 .threads = call->threads };
}

static bool conv_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_job job = job_of(call, 0, 1);
    if (!zt_conv_read(call->graph, zt_call_node(call), &job.conv, err))
        return false;
    zt_conv_forward(&job);
    return true;
}

static bool transpose_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_job job = job_of(call, 0, 1);
    if (!zt_conv_transpose_read(call->graph, zt_call_node(call), &job.conv, err))
        return false;
    zt_conv_backward(&job);
    return true;
}

static bool grad_input_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_job job = job_of(call, 1, 0);
    if (!zt_conv_grad_input_read(call->graph, zt_call_node(call), &job.conv, err))
        return false;
    zt_conv_backward(&job);
    return true;
}

static bool transpose_grad_input_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_job job = job_of(call, 1, 0);
    if (!zt_conv_transpose_grad_input_read(call->graph, zt_call_node(call), &job.conv, err))
        return false;
    zt_conv_forward(&job);
    return true;
}

static bool grad_weight_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_job job = { .dtype = call->in[0].dtype,
                               .from = call->in[0].data,
                               .dy = call->in[1].data,
                               .to_dtype = call->out[0].dtype,
                               .to = call->out[0].data,
                               .db = call->out_count > 1 ? call->out[1].data : NULL,
                               .threads = call->threads };
    if (!zt_conv_grad_weight_read(call->graph, zt_call_node(call), &job.conv, err))
        return false;
    zt_conv_weight(&job);
    return true;
}

static bool transpose_grad_weight_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv_job job = { .dtype = call->in[0].dtype,
                               .from = call->in[1].data,
                               .dy = call->in[0].data,
                               .to_dtype = call->out[0].dtype,
                               .to = call->out[0].data,
                               .threads = call->threads };
    if (!zt_conv_transpose_grad_weight_read(call->graph, zt_call_node(call), &job.conv, err))
        return false;
    zt_conv_weight(&job);
    return true;
}

/* ---- gradient rules ---- */

/* The gradient of the data, from the weight and dy. */
static int emit_grad_input(struct zt_grad *b, int node, const char *op) {
    const struct zt_graph *g = zt_grad_graph(b);
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape x = g->values[n->in[0]]->shape;
    const int in[] = { n->in[1], zt_grad_out(b, node, 0) };
    return zt_emit_own_ints(b, op, in, 2, n, (const struct zt_ints[]){ { "input_shape", x.dim, x.rank }, { 0 } });
}

/* The gradient of the weight, from the data and dy; with out_count 2, also that of the bias. */
static void emit_grad_weight(struct zt_grad *b, int node, const char *op, int *out, int out_count) {
    const struct zt_graph *g = zt_grad_graph(b);
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *w = &g->values[n->in[1]]->shape;
    const int in[] = { n->in[0], zt_grad_out(b, node, 0) }, axes = w->rank - 2;
    const struct zt_attr kernel = { .name = "kernel_shape",
                                    .type = ZT_ATTR_INTS,
                                    .count = axes,
                                    .ints = zt_arena_copy(g->arena, w->dim + 2, sizeof *w->dim * (size_t)axes) };
    zt_emit_node(b, &(struct zt_emission){ op, "ztrain", in, 2, n, &kernel, 1 }, out, out_count);
}

static bool conv_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const bool bias = zt_grad_wanted(b, node, 2);
    int d[2];
    if (zt_grad_wanted(b, node, 0))
        zt_grad_give(b, node, 0, emit_grad_input(b, node, "ConvGradInput"));
    if (zt_grad_wanted(b, node, 1) || bias) {
        emit_grad_weight(b, node, "ConvGradWeight", d, bias ? 2 : 1);
        if (zt_grad_wanted(b, node, 1))
            zt_grad_give(b, node, 1, d[0]);
        if (bias)
            zt_grad_give(b, node, 2, d[1]);
    }
    return true;
}

/* db[c] = sum of dy over every axis but that of the channels. */
static int sum_of_planes(struct zt_grad *b, int dy) {
    struct zt_attr keep = { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 };
    int64_t axes[ZT_MAX_RANK] = { 0 };
    int rank = dy < 0 ? 2 : zt_grad_graph(b)->values[dy]->shape.rank, out;
    for (int a = 2; a < rank; a++)
        axes[a - 1] = a;
    const int in[2] = { dy, zt_emit_ints(b, axes, rank - 1) };
    return zt_emit_node(b, &(struct zt_emission){ "ReduceSum", "", in, 2, NULL, &keep, 1 }, &out, 1) ? out : -1;
}

static bool transpose_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dw;
    if (zt_grad_wanted(b, node, 0))
        zt_grad_give(b, node, 0, emit_grad_input(b, node, "ConvTransposeGradInput"));
    if (zt_grad_wanted(b, node, 1)) {
        emit_grad_weight(b, node, "ConvTransposeGradWeight", &dw, 1);
        zt_grad_give(b, node, 1, dw);
    }
    if (zt_grad_wanted(b, node, 2))
        zt_grad_give(b, node, 2, sum_of_planes(b, zt_grad_out(b, node, 0)));
    return true;
}

/* ---- rows ---- */

#define ON_CPU(id) ZT_IF_DNNL_WITH(id, .share = zt_conv_cpu_share, .prefers_float = zt_conv_cpu_prefers_float)
#define FORWARD_ROW                                                                                                    \
    .domain = "", .since = 1, ZT_ONE_OUT(2, 3), .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },              \
    .same_type = 1 << 1 | 1 << 2
#define GRAD_ROW                                                                                                       \
    .domain = "ztrain", .since = 1, .min_in = 2, .max_in = 2, .min_out = 1, .flags = ZT_OP_HALF | ZT_OP_WINDOWS,       \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .same_type = 1 << 1

/* Weights are [M, C/G, k...], those of ConvTranspose [C, M/G, k...]. */
static int conv_channel_axis(const struct zt_node *n, int in, int rank) {
    (void)n;
    (void)rank;
    return in == 1 ? 0 : -1;
}

static int transpose_channel_axis(const struct zt_node *n, int in, int rank) {
    (void)n;
    (void)rank;
    return in == 1 ? 1 : -1;
}

/* A [r, C/G, k...] for every group: [G r, C/G, k...]. */
static int repeat_for_groups(struct zt_low_rank *l, int a, int64_t groups) {
    const struct zt_shape s = l->g->values[a]->shape;
    int64_t dims[ZT_MAX_RANK + 1] = { groups };
    memcpy(dims + 1, s.dim, (size_t)s.rank * sizeof *dims);
    const int wide = zt_graph_add_ints(l->g, NULL, dims, s.rank + 1);
    dims[1] *= groups;
    const int flat = zt_graph_add_ints(l->g, NULL, dims + 1, s.rank);
    const int all =
        zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora_A_groups", "Expand", (int[]){ a, wide }, 2, NULL, 0 });
    return zt_low_rank_emit(l,
                            &(struct zt_low_rank_node){ "lora_A_rows", "Reshape", (int[]){ all, flat }, 2, NULL, 0 });
}

/* conv(x, W + s B A) = conv(x, W) + conv1(s conv(x, A), B), where conv1 has windows of one element. With G groups both
 * are convolutions of G groups, the first with A for each of them. */
static int conv_low_rank(struct zt_low_rank *l) {
    const struct zt_node *n = l->g->nodes[l->node];
    const int64_t groups = zt_attr_int(n, "group", 1);
    const struct zt_attr group = { .name = "group", .type = ZT_ATTR_INT, .i = groups };
    const int a = groups > 1 ? repeat_for_groups(l, l->q, groups) : l->q;
    const int u = zt_low_rank_emit(
        l, &(struct zt_low_rank_node){ "lora_A", "Conv", (int[]){ l->x, a }, 2, n->attr, n->attr_count });
    const int scaled = zt_low_rank_scale(l, u);
    return zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora_B", "Conv", (int[]){ scaled, l->p }, 2, &group, 1 });
}

static const struct zt_low_rank_row conv_low_rank_row = {
    .weight_in = 1 << 1,
    .windows = true,
    .emit = conv_low_rank,
};

const struct zt_op zt_op_conv = {
    .name = "Conv",
    FORWARD_ROW,
    .flags = ZT_OP_HALF | ZT_OP_WINDOWS,
    .attrs = conv_attrs,
    .infer = conv_infer,
    .grad = conv_grad,
    .channel_axis = conv_channel_axis,
    .low_rank = &conv_low_rank_row,
    .flops = conv_flops,
    .kernel = { [ZT_REF] = { .run = conv_ref },
                [ZT_CPU] = ON_CPU(zt_conv_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(conv, zt_conv_takes_cuda) },
};
const struct zt_op zt_op_conv_grad_input = {
    .name = "ConvGradInput",
    GRAD_ROW,
    .max_out = 1,
    .attrs = grad_attrs,
    .infer = grad_input_infer,
    .body = zt_conv_grad_input_function_body,
    .flops = grad_input_flops,
    .kernel = { [ZT_REF] = { .run = grad_input_ref },
                [ZT_CPU] = ON_CPU(zt_conv_grad_input_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(conv, zt_conv_takes_cuda) },
};
const struct zt_op zt_op_conv_grad_weight = {
    .name = "ConvGradWeight",
    GRAD_ROW,
    .max_out = 2,
    .attrs = grad_weight_attrs,
    .infer = grad_weight_infer,
    .body = zt_conv_grad_weight_function_body,
    .flops = grad_weight_flops,
    .kernel = { [ZT_REF] = { .run = grad_weight_ref },
                [ZT_CPU] = ON_CPU(zt_conv_grad_weight_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(conv, zt_conv_takes_cuda) },
};
const struct zt_op zt_op_conv_transpose = {
    .name = "ConvTranspose",
    FORWARD_ROW,
    .flags = ZT_OP_HALF | ZT_OP_WINDOWS | ZT_OP_GROUP_CHANNELS,
    .attrs = transpose_attrs,
    .infer = transpose_infer,
    .grad = transpose_grad,
    .channel_axis = transpose_channel_axis,
    .flops = transpose_flops,
    .kernel = { [ZT_REF] = { .run = transpose_ref },
                [ZT_CPU] = ON_CPU(zt_conv_transpose_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(conv, zt_conv_takes_cuda) },
};
const struct zt_op zt_op_conv_transpose_grad_input = {
    .name = "ConvTransposeGradInput",
    GRAD_ROW,
    .max_out = 1,
    .attrs = grad_attrs,
    .infer = transpose_grad_input_infer,
    .body = zt_conv_transpose_grad_input_function_body,
    .flops = transpose_grad_input_flops,
    .kernel = { [ZT_REF] = { .run = transpose_grad_input_ref },
                [ZT_CPU] = ON_CPU(zt_conv_transpose_grad_input_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(conv, zt_conv_takes_cuda) },
};
const struct zt_op zt_op_conv_transpose_grad_weight = {
    .name = "ConvTransposeGradWeight",
    GRAD_ROW,
    .max_out = 1,
    .attrs = grad_weight_attrs,
    .infer = transpose_grad_weight_infer,
    .body = zt_conv_transpose_grad_weight_function_body,
    .flops = transpose_grad_weight_flops,
    .kernel = { [ZT_REF] = { .run = transpose_grad_weight_ref },
                [ZT_CPU] = ON_CPU(zt_conv_transpose_grad_weight_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(conv, zt_conv_takes_cuda) },
};
