/* ONNX DeformConv, opset 19 on, any number of spatial axes. With s(c, k, o) = x[n, c] interpolated linearly at the
 * position of window position k of result o (deform_conv.h), 0 outside:
 *
 *     y[n, m, o]            = b[m] + sum over c, k of w[m, c, k] mask[n, g, k, o] s(c, k, o)          g: group of c
 *
 * and with the gradient of the columns, d[c, k, o] = sum over m of w[m, c, k] dy[n, m, o]:
 *
 *     dx[n, c, i]           = sum over k, o of d mask (weight of pixel i in s)         ztrain.DeformConvGradInput
 *     doffset[n, g, k, a, o] = mask sum over c in g of d (derivative of s along axis a)  its second output
 *     dmask[n, g, k, o]     = sum over c in g of d s                                    its third output
 *     dw[m, c, k]           = sum over n, o of dy mask s                               ztrain.DeformConvGradWeight
 *     db[m]                 = sum over n, o of dy
 *
 * At a pixel, where s has a kink along an axis, its derivative is that towards larger indices. */
#include "ops/detection/deform_conv.h"

#include "ops/detection/kernels.h"
#include "ops/detection/launch_deform_conv.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* ---- shape rules ---- */

static bool deform_conv_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_deform_conv d;
    if (!zt_deform_conv_read(g, node, &d, err))
        return false;
    struct zt_shape y = { d.conv.window.axes + 2, { d.conv.n, d.conv.m } };
    memcpy(y.dim + 2, d.conv.window.out, sizeof *y.dim * (size_t)d.conv.window.axes);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &y);
    return true;
}

static bool grad_input_infer(struct zt_graph *g, int node, struct zt_err *err) {
    static const int like[3] = { 0, 2, 4 }; /* x, offset, mask */
    struct zt_deform_conv d;
    if (!zt_deform_conv_grad_input_read(g, node, &d, err))
        return false;
    if (!d.masked && zt_out(g, node, 2))
        return zt_node_fail(g, node, err, "has a gradient of the mask but no mask");
    for (int i = 0; i < 3; i++)
        if (zt_out(g, node, i))
            zt_set_out(g, node, i, zt_in(g, node, like[i])->dtype, &zt_in(g, node, like[i])->shape);
    return true;
}

static bool grad_weight_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_deform_conv d;
    if (!zt_deform_conv_grad_weight_read(g, node, &d, err))
        return false;
    const struct zt_window *w = &d.conv.window;
    struct zt_shape dw = { w->axes + 2, { d.conv.m, d.conv.c / d.conv.groups } };
    memcpy(dw.dim + 2, w->kernel, sizeof *dw.dim * (size_t)w->axes);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &dw);
    return true;
}

/* The products of the convolution of the sampled columns, each a multiplication and an addition. */
static double flops(const struct zt_graph *g, int node) {
    struct zt_deform_conv d;
    struct zt_err err = { 0 };
    if (!zt_deform_inputs(g->nodes[node])->read(g, node, &d, &err))
        return 0;
    const struct zt_window *w = &d.conv.window;
    return 2.0 * (double)(d.conv.n * d.conv.m) * (double)(d.conv.c / d.conv.groups) *
           (double)(w->kernel_elems * w->out_elems);
}

/* ---- gradient rule ---- */

static int emit_grad_weight(struct zt_grad *b, int node) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_shape w = *zt_grad_in_shape(b, node, 1);
    const int in[4] = { n->in[0], zt_grad_out(b, node, 0), n->in[2], n->in_count > 4 ? n->in[4] : -1 };
    return zt_emit_own_ints(b, "DeformConvGradWeight", in, in[3] < 0 ? 3 : 4, n,
                            (const struct zt_ints[]){ { "kernel_shape", w.dim + 2, w.rank - 2 }, { 0 } });
}

static int emit_grad_bias(struct zt_grad *b, int node) {
    const int rank = zt_grad_in_shape(b, node, 0)->rank;
    struct zt_attr keep = { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 };
    int64_t axes[ZT_MAX_RANK] = { 0 };
    int out;
    for (int a = 2; a < rank; a++)
        axes[a - 1] = a;
    const int in[2] = { zt_grad_out(b, node, 0), zt_emit_ints(b, axes, rank - 1) };
    zt_emit_node(b, &(struct zt_emission){ "ReduceSum", "", in, 2, NULL, &keep, 1 }, &out, 1);
    return out;
}

static bool deform_conv_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    static const int given[3] = { 0, 2, 4 }; /* x, offset, mask */
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const bool masked = n->in_count > 4 && n->in[4] >= 0;
    const bool moves = zt_grad_wanted(b, node, 2) || (masked && zt_grad_wanted(b, node, 4));
    if (zt_grad_wanted(b, node, 0) || moves) {
        const int in[5] = { n->in[0], n->in[1], n->in[2], zt_grad_out(b, node, 0), masked ? n->in[4] : -1 };
        int out[3] = { -1, -1, -1 };
        zt_emit_node(b, &(struct zt_emission){ "DeformConvGradInput", "ztrain", in, masked ? 5 : 4, n }, out,
                     !moves   ? 1
                     : masked ? 3
                              : 2);
        for (int i = 0; i < 3; i++)
            if (zt_grad_wanted(b, node, given[i]))
                zt_grad_give(b, node, given[i], out[i]);
    }
    if (zt_grad_wanted(b, node, 1))
        zt_grad_give(b, node, 1, emit_grad_weight(b, node));
    if (zt_grad_wanted(b, node, 3))
        zt_grad_give(b, node, 3, emit_grad_bias(b, node));
    return true;
}

/* ---- what the CUDA kernels are told ---- */

static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_launch_deform *l = to;
    struct zt_deform_conv d;
    if (!zt_deform_inputs(g->nodes[node])->read(g, node, &d, err))
        return false;
    const struct zt_window *w = &d.conv.window;
    *l = (struct zt_launch_deform){ .axes = w->axes,
                                    .n = d.conv.n,
                                    .c = d.conv.c,
                                    .m = d.conv.m,
                                    .groups = d.conv.groups,
                                    .offset_groups = d.offset_groups,
                                    .pixels = w->in_elems,
                                    .places = w->out_elems,
                                    .kernel_elems = w->kernel_elems };
    for (int a = 0; a < w->axes && a < ZT_LAUNCH_DEFORM_AXES; a++) {
        l->in[a] = w->in[a];
        l->out[a] = w->out[a];
        l->kernel[a] = w->kernel[a];
        l->stride[a] = w->stride[a];
        l->dilation[a] = w->dilation[a];
        l->pad[a] = w->pad[a];
    }
    return true;
}

/* Counts of cuBLASLt and of sources that are sorted are 32 bits wide. */
static bool takes_cuda(const struct zt_graph *g, int node) {
    struct zt_launch_deform l;
    struct zt_err err = { 0 };
    if (!zt_cuda_floats(g, node) || !describe(g, node, &l, &err) || l.axes > ZT_LAUNCH_DEFORM_AXES)
        return false;
    const int64_t sizes[] = { l.n, l.c, l.m, l.pixels, l.places, l.kernel_elems };
    bool fit = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fit &= zt_cuda_size(sizes[i]);
    return fit && zt_cuda_size(l.c * l.kernel_elems) && l.kernel_elems * l.places <= INT32_MAX >> l.axes;
}

/* ---- rows ---- */

#define DEFORM_ATTRS                                                                                                   \
    { "dilations", ZT_ATTR_INTS }, { "group", ZT_ATTR_INT }, { "kernel_shape", ZT_ATTR_INTS },                         \
        { "offset_group", ZT_ATTR_INT }, { "pads", ZT_ATTR_INTS }, {                                                   \
        "strides", ZT_ATTR_INTS                                                                                        \
    }
static const struct zt_attr_spec attrs[] = { DEFORM_ATTRS, { 0 } };
#define DEFORM_ROW(inputs)                                                                                             \
    .in_types = { ZT_ANY_FLOAT }, .same_type = ((1u << (inputs)) - 1) & ~1u, .attrs = attrs, .flops = flops

const struct zt_op zt_op_deform_conv = {
    .name = "DeformConv",
    .domain = "",
    .since = 19,
    ZT_ONE_OUT(3, 5),
    DEFORM_ROW(5),
    .flags = ZT_OP_WINDOWS,
    .infer = deform_conv_infer,
    .grad = deform_conv_grad,
    .kernel = { [ZT_REF] = { .prepare = zt_deform_conv_ref_prepare, .run = zt_deform_conv_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_deform_conv_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(deform_conv, takes_cuda, describe) },
};
const struct zt_op zt_op_deform_conv_grad_input = {
    .name = "DeformConvGradInput",
    .domain = "ztrain",
    .since = 1,
    .min_in = 4,
    .max_in = 5,
    .min_out = 1,
    .max_out = 3,
    DEFORM_ROW(5),
    .flags = ZT_OP_WINDOWS,
    .infer = grad_input_infer,
    .body = zt_deform_conv_grad_input_function_body,
    .kernel = { [ZT_REF] = { .prepare = zt_deform_conv_ref_prepare, .run = zt_deform_conv_grad_input_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_deform_conv_grad_input_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(deform_conv_grad_input, takes_cuda, describe) },
};
const struct zt_op zt_op_deform_conv_grad_weight = {
    .name = "DeformConvGradWeight",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(3, 4),
    DEFORM_ROW(4),
    .flags = ZT_OP_WINDOWS,
    .infer = grad_weight_infer,
    .body = zt_deform_conv_grad_weight_function_body,
    .kernel = { [ZT_REF] = { .prepare = zt_deform_conv_ref_prepare, .run = zt_deform_conv_grad_weight_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_deform_conv_grad_weight_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(deform_conv_grad_weight, takes_cuda, describe) },
};
